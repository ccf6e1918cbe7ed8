package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

const keystoneConf = `[api]
auth_strategy = keystone
[keystone_authtoken]
auth_type = password
auth_url = http://127.0.0.1:1/v3
www_authenticate_uri = http://127.0.0.1:1
username = placement
password = secret
user_domain_name = Default
project_name = service
project_domain_name = Default
`

// Required options of [keystone_authtoken].
func TestRequiredKeystoneOptions(t *testing.T) {
	for option, line := range map[string]string{"auth_type": "auth_type = password\n",
		"auth_url": "auth_url = http://127.0.0.1:1/v3\n", "username": "username = placement\n",
		"password": "password = secret\n"} {
		if _, _, err := readText(t, strings.Replace(keystoneConf, line, "", 1)); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), option) {
			t.Errorf("without %s: %v", option, err)
		}
	}
	for bad, want := range map[string]string{"auth_type = v2token\n": "v2token", "auth_url = nowhere\n": "nowhere",
		"cafile = /nowhere/ca.pem\n": "/nowhere/ca.pem"} {
		option, _, _ := strings.Cut(bad, " ")
		lines := slices.DeleteFunc(strings.SplitAfter(keystoneConf, "\n"), func(l string) bool {
			return strings.HasPrefix(l,
				option+" ")
		})
		if _, _, err := readText(t, strings.Join(lines, "")+bad); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestUserProjects(t *testing.T) {
	s, _, err := readText(t, "[berth]\nuser_projects = ann:p1, bob : p2,\n")
	if err != nil || len(s.Accounts.Basic.Projects) != 2 || s.Accounts.Basic.Projects["bob"] != "p2" {
		t.Errorf("%v %v", s.Accounts.Basic.Projects, err)
	}
	for _, bad := range []string{"ann", ":p", "ann:", "ann:p1,ann:p2"} {
		if _, _, err := readText(t, "[berth]\nuser_projects = "+bad+"\n"); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

package policy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
)

func parseConfig(t *testing.T, text string) *config.Config {
	t.Helper()
	file, err := config.Parse("placement.conf", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return config.New(file)
}

func TestLoadFindsFilesAndDirectories(t *testing.T) {
	near, far := t.TempDir(), t.TempDir()
	writeFile(t, far, "policy.yaml", "a: role:yaml\n")
	writeFile(t, far, "policy.json", `{"a": "role:json"}`)
	writeFile(t, far, "other.yaml", "a: role:other\n")
	writeFile(t, far, "policy.d/x.yaml", "b: role:d\n")
	writeFile(t, far, "one/x.yaml", "b: role:one\n")
	writeFile(t, far, "two/x.yaml", "c: role:two\n")
	for _, c := range []struct {
		name, text string
		rules      map[string]string // rule → role that it requires; empty: denied
		warnings   int
	}{
		{"no option is set", "", map[string]string{"a": "yaml", "b": "d"}, 0},
		{"policy_file is a relative path", "[oslo_policy]\npolicy_file = other.yaml\n", map[string]string{"a": "other",
			"b": "d"}, 0},
		{"policy_file is an absolute path", "[oslo_policy]\npolicy_file " +
			"= " + far + "/other.yaml\n", map[string]string{"a": "other"}, 0},
		{"policy_file is in [DEFAULT]", "[DEFAULT]\npolicy_file = " +
			"other.yaml\n", map[string]string{"a": "other"}, 0},
		{"policy_file does not exist", "[oslo_policy]\npolicy_file = " +
			"absent.yaml\n", map[string]string{"a": "", "b": "d"}, 1},
		{"policy_dirs names two directories and a missing one",
			"[oslo_policy]\npolicy_dirs = one\npolicy_dirs = absent\npolicy_dirs = " +
				"two\n", map[string]string{"a": "yaml", "b": "one", "c": "two"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := Load(parseConfig(t, c.text), nil, nil, near, far)
			if err != nil {
				t.Fatal(err)
			}
			for rule, role := range c.rules {
				checkAllow(t, e, role != "", rule, Creds{"roles": []string{role}}, nil)
			}
			if len(e.Warnings()) != c.warnings {
				t.Errorf("%q", e.Warnings())
			}
		})
	}
	// policy.json is read if there is no policy.yaml, and Reload finds it when it is created later.
	json := t.TempDir()
	e, err := Load(parseConfig(t, ""), []Rule{{Name: "a", Check: "role:code"}}, nil, json)
	if err != nil {
		t.Fatal(err)
	}
	checkAllow(t, e, true, "a", Creds{"roles": []string{"code"}}, nil)
	writeFile(t, json, "policy.json", `{"a": "role:json"}`)
	if changed, err := e.Reload(); !changed || err != nil {
		t.Errorf("%v, %v", changed, err)
	}
	checkAllow(t, e, true, "a", Creds{"roles": []string{"json"}}, nil)
}

func TestLoadReadsEveryOption(t *testing.T) {
	got, err := readOptions(parseConfig(t, ""))
	if want := (Options{EnforceScope: true, DefaultRule: "default",
		Remote: Remote{Timeout: time.Minute}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	got, err = readOptions(parseConfig(t, `[oslo_policy]
enforce_scope = no
enforce_new_defaults = true
policy_default_rule = other
remote_content_type = application/json
remote_timeout = 1.5
remote_ssl_verify_server_crt = 1
remote_ssl_ca_crt_file = ca
remote_ssl_client_crt_file = crt
remote_ssl_client_key_file = key
`))
	want := Options{EnforceNewDefaults: true, EnforceScope: false, DefaultRule: "other",
		Remote: Remote{
			JSON:     true,
			Timeout:  1500 * time.Millisecond,
			Verify:   true,
			CAFile:   "ca",
			CertFile: "crt",
			KeyFile:  "key",
		}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	for _, wrong := range []string{"enforce_scope = perhaps", "enforce_new_defaults = 2", "remote_content_type = " +
		"text/plain", "remote_timeout = -1",
		"policy_file = $absent", "policy_dirs = $absent"} {
		_, err := Load(parseConfig(t, "[oslo_policy]\n"+wrong), nil, nil)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "placement.conf:2: [oslo_policy]") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	all := "[DEFAULT]\npolicy_file=x\npolicy_dirs=x\npolicy_default_rule=x\n[oslo_policy]\npolicy_file=x\n" +
		"remote_timeout=1\nenforce_scope=1\nother=1\n"
	if unknown := parseConfig(t, all).Unknown(Known()); len(unknown) != 1 || unknown[0].Option != "other" {
		t.Errorf("%v", unknown)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/keystone"
	"github.com/openberth/berth/internal/openstackclient"
	"github.com/openberth/berth/internal/testenv"
)

// keystoneLogin is a user of Keystone whose password is its name.
func keystoneLogin(k *keystone.Keystone, user, password, project string) login {
	return login{"OS_AUTH_URL=" + k.URL, "OS_USERNAME=" + user, "OS_PASSWORD=" + password, "OS_PROJECT_NAME=" + project,
		"OS_USER_DOMAIN_NAME=Default", "OS_PROJECT_DOMAIN_NAME=Default"}
}

// keystoneAccount returns the options of an account whose password is its name.
func keystoneAccount(k *keystone.Keystone, group, user string) string {
	timeout := "timeout = 60" // also on a busy machine
	if group == "keystone_authtoken" {
		timeout = "http_connect_timeout = 60"
	}
	return strings.Join([]string{"[" + group + "]", timeout, "auth_type = password", "auth_url = " + k.URL,
		"username = " + user,
		"password = " + user, "project_name = service", "user_domain_name = Default", "project_domain_name = Default"}, "\n")
}

// register enters a service into Keystone's catalog.
func register(t *testing.T, k *keystone.Keystone, kind, url string) {
	t.Helper()
	var before struct{ Services []struct{ ID string } } // of another test, which has ended
	k.Call(t, k.Admin(t), "GET", "/services?type="+kind, nil, http.StatusOK, &before)
	for _, service := range before.Services {
		k.Call(t, k.Admin(t), "DELETE", "/services/"+service.ID, nil, http.StatusNoContent, nil)
	}
	var made struct{ Service struct{ ID string } }
	k.Call(t, k.Admin(t), "POST", "/services", keystone.Doc{"service": keystone.Doc{"type": kind, "name": kind}},
		http.StatusCreated, &made)
	for _, face := range []string{"public", "internal"} {
		k.Call(t, k.Admin(t), "POST", "/endpoints", keystone.Doc{"endpoint": keystone.Doc{"service_id": made.Service.ID,
			"interface": face, "region_id": k.Region, "url": url}}, http.StatusCreated, nil)
	}
}

// imageVersions serves the version document of an image service, and nothing else: the openstack client requires one
// for a list of servers. It returns its URL.
func imageVersions(t *testing.T) string {
	t.Helper()
	var service *httptest.Server
	service = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Trim(r.URL.Path, "/") != "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"versions": [{"id": "v2.9", "status": "CURRENT", "links": [{"rel": "self", "href": "%s/v2/"}]}]}`,
			service.URL)
	}))
	t.Cleanup(service.Close)
	return service.URL
}

// testComputeWithKeystone runs placement, compute and an agent as separate processes that sign in at Keystone and find
// each other in its catalog, and users of two projects.
func testComputeWithKeystone(t *testing.T, k *keystone.Keystone) {
	k.User(t, "placement", "service", "service")
	agentID, _ := k.User(t, "agent1", "service", "service")
	otherID, _ := k.User(t, "agent2", "service", "service")
	k.User(t, "ann", "red", "member")
	k.User(t, "bob", "blue", "member")
	base, dir := conf(t, machine(t, 1, 2)), t.TempDir()
	file := func(lines ...string) string { return writeConfig(t, "service.conf", lines...) }
	authtoken := "[api]\nauth_strategy = keystone\n" + keystoneAccount(k, "keystone_authtoken", "placement") +
		"\nwww_authenticate_uri = " + k.URL
	p := start(t, []string{"placement"}, "placement", "--config-file", base, "--config-file", file(authtoken,
		"[placement_database]", "connection = sqlite:////"+strings.TrimPrefix(dir, "/")+"/placement.db"),
		"--listen", "127.0.0.1:0")
	register(t, k, "placement", p.urls["placement"])
	c := start(t, []string{"compute"}, "compute", "--config-file", base, "--config-file", file(authtoken,
		keystoneAccount(k, "placement", "placement")), "--data-dir", dir, "--listen", "127.0.0.1:0")
	register(t, k, "compute", c.urls["compute"]+"/v2.1")
	register(t, k, "image", imageVersions(t))
	agent := func(user string) *daemon {
		return start(t, nil, "agent", "--config-file", base, "--config-file", file(keystoneAccount(k, "placement", user),
			"[compute]", "auth_section = placement"), "--data-dir", filepath.Join(dir, "cmp1"))
	}
	a := agent("agent1")
	admin := keystoneLogin(k, k.AdminUser, k.AdminPassword, k.AdminProject)
	ann, bob := keystoneLogin(k, "ann", "ann", "red"), keystoneLogin(k, "bob", "bob", "blue")
	account := func() string {
		var hosts []struct{ Account string }
		if err := json.Unmarshal([]byte(admin.ok(t, nil, "host", "list", "-o", "json")), &hosts); err != nil {
			t.Fatal(err)
		}
		if len(hosts) != 1 {
			return ""
		}
		return hosts[0].Account
	}
	testenv.Until(t, "the agent is bound to its user", func() (bool, error) { return account() == agentID, nil })

	admin.ok(t, nil, "flavor", "create", "small", "--vcpus", "1", "--ram", "64")
	ann.ok(t, nil, "server", "create", "anns", "--flavor", "small", "--wait")
	bob.refused(t, nil, []string{"anns"}, "server", "show", "anns")
	ann.ok(t, nil, "server", "show", "anns")
	testOpenStackServerList(t, ann, []string{"anns"})
	testOpenStackServerList(t, bob, nil)
	login{"BERTH_TOKEN=" + k.Token(t, "ann", "ann", "red")}.ok(t, []*daemon{c}, "server", "show", "anns")
	testCloudsFileWithKeystone(t, k)
	if stdout, stderr, status := keystoneLogin(k, "ann", "wrong-secret", "red").run(t, nil, "server", "show",
		"anns"); status != 1 || !strings.Contains(stderr, "refuses the user ann") ||
		strings.Contains(stderr, "wrong-secret") {
		t.Errorf("a wrong password: status %d\n%s%s", status, stdout, stderr)
	}
	resp, err := http.Get(c.urls["compute"] + "/v2.1/servers")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 401 || !strings.Contains(resp.Header.Get("WWW-Authenticate"), k.URL) {
		t.Errorf("without a token: %d %v", resp.StatusCode, resp.Header)
	}

	a.stop(t)
	a = agent("agent2")
	a.logs(t, "account "+otherID+" may not speak for host cmp1")
	admin.ok(t, nil, "host", "bind", "cmp1", otherID)
	ann.ok(t, nil, "server", "delete", "anns", "--wait")
	if got := account(); got != otherID {
		t.Errorf("the host is bound to %s", got)
	}
	for _, d := range []*daemon{a, c, p} {
		d.stop(t)
	}
}

// testCloudsFileWithKeystone uses accounts of clouds.yaml with the client commands and with the openstack client.
func testCloudsFileWithKeystone(t *testing.T, k *keystone.Keystone) {
	t.Helper()
	clouds := writeConfig(t, "clouds.yaml", `clouds:
  red:
    auth: {auth_url: "`+k.URL+`", username: ann, project_name: red, user_domain_name: Default,
      project_domain_name: Default}
    region_name: `+k.Region)
	secure := writeConfig(t, "secure.yaml", "clouds: {red: {auth: {password: ann}}}")
	red := login{"OS_CLIENT_CONFIG_FILE=" + clouds, "OS_CLIENT_SECURE_FILE=" + secure, "OS_CLOUD=red"}
	red.ok(t, nil, "server", "show", "anns")
	testOpenStackServerList(t, red, []string{"anns"})
	red[2] = "OS_CLOUD=green"
	red.refused(t, nil, []string{clouds + " has no cloud green"}, "server", "show", "anns")
}

// testOpenStackServerList checks which servers the openstack client lists.
func testOpenStackServerList(t *testing.T, l login, want []string) {
	t.Helper()
	var list []struct{ Name string }
	if err := json.Unmarshal([]byte(l.openstack(t, "server", "list", "--no-name-lookup", "-f", "json")),
		&list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("openstack server list shows %v, want %v", names, want)
	}
}

// openstack runs the openstack client with the account, and returns what it prints.
func (l login) openstack(t *testing.T, args ...string) string {
	t.Helper()
	out, err := l.openstackCommand(t, args...).Output()
	if err != nil {
		exit, _ := err.(*exec.ExitError)
		t.Fatalf("openstack %v: %v\n%s%s", args, err, out, exit.Stderr)
	}
	return string(out)
}

// openstackFails runs the openstack client with the account. It must fail with these words.
func (l login) openstackFails(t *testing.T, words string, args ...string) {
	t.Helper()
	out, err := l.openstackCommand(t, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), words) {
		t.Errorf("openstack %v: %v, want %q\n%s", args, err, words, out)
	}
}

// openstackCommand returns a command of the openstack client with the account.
func (l login) openstackCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := openstackclient.Command(t, args...)
	cmd.Env = append(berth(t).Env, l...)
	return cmd
}

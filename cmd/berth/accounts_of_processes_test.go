package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/internal/testcert"
	"github.com/openberth/berth/internal/testenv"
)

// login is the OS_ variables with which a command signs in.
type login []string

// basicLogin is an account of the user file, whose password is the name and "-secret".
func basicLogin(name string) login {
	return login{"OS_AUTH_TYPE=http_basic", "OS_USERNAME=" + name, "OS_PASSWORD=" + name + "-secret"}
}

// run runs a client command against the services of these daemons with the account.
func (l login) run(t *testing.T, services []*daemon, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := berth(t, args...)
	cmd.Env = append(cmd.Env, l...)
	for _, d := range services {
		for name, url := range d.urls {
			cmd.Env = append(cmd.Env, "BERTH_"+strings.ToUpper(name)+"_URL="+url)
		}
	}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// ok runs a command that must succeed, and returns its output.
func (l login) ok(t *testing.T, services []*daemon, args ...string) string {
	t.Helper()
	stdout, stderr, status := l.run(t, services, args...)
	if status != 0 {
		t.Fatalf("berth %v: status %d\n%s%s", args, status, stdout, stderr)
	}
	return stdout
}

// refused runs a command that must fail with these words.
func (l login) refused(t *testing.T, services []*daemon, words []string, args ...string) {
	t.Helper()
	stdout, stderr, status := l.run(t, services, args...)
	if status != 1 {
		t.Errorf("berth %v: status %d\n%s%s", args, status, stdout, stderr)
	}
	for _, word := range words {
		if !strings.Contains(stderr, word) {
			t.Errorf("berth %v: no %q in %s", args, word, stderr)
		}
	}
}

// writeUsers writes a user file with accounts of basicLogin, and returns its path.
func writeUsers(t *testing.T, names ...string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range names {
		hash, err := bcrypt.GenerateFromPassword([]byte(name+"-secret"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(name + ":" + string(hash) + "\n")
	}
	return writeConfig(t, "htpasswd", text.String())
}

// writeConfig writes a file that only its owner can read, and returns its path.
func writeConfig(t *testing.T, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// basicCalls returns the options with which a service calls another one as an account of basicLogin.
func basicCalls(group, name string) string {
	return "[" + group + "]\nauth_type = http_basic\nusername = " + name + "\npassword = " + name + "-secret"
}

// basicCloud is placement, compute and the options of agents, as separate processes with http_basic over TLS.
type basicCloud struct {
	ca       *testcert.CA
	services []*daemon // placement, compute
	agent    func(host, account string) []string
}

// trust is an account that trusts the certificates of the cloud.
func (c *basicCloud) trust(l login) login { return append(l, "OS_CACERT="+c.ca.File) }

// startBasicCloud starts placement and compute.
func startBasicCloud(t *testing.T) *basicCloud {
	t.Helper()
	base, dir, ca := conf(t, machine(t, 1, 2)), t.TempDir(), testcert.NewCA(t)
	issued := ca.Issue(t, testcert.Certificate{})
	users := writeUsers(t, "root", "nova", "agent1", "agent2", "ann", "bob")
	server := writeConfig(t, "server.conf", "[DEFAULT]", "http_basic_auth_user_file = "+users, "[api]",
		"auth_strategy = http_basic", "[berth]", "admin_users = root", "service_users = nova, agent1, agent2",
		"user_projects = ann:red, bob:blue", "[placement_database]",
		"connection = sqlite:////"+strings.TrimPrefix(dir, "/")+"/placement.db", basicCalls("placement", "nova"),
		"cafile = "+ca.File, "[ssl]", "cert_file = "+issued.CertFile, "key_file = "+issued.KeyFile)
	p := start(t, []string{"placement"}, "placement", "--config-file", base, "--config-file", server,
		"--listen", "127.0.0.1:0")
	c := start(t, []string{"compute"}, "compute", "--config-file", base, "--config-file", server, "--data-dir", dir,
		"--listen", "127.0.0.1:0", "--placement-url", p.urls["placement"])
	return &basicCloud{ca: ca, services: []*daemon{p, c}, agent: func(host, account string) []string {
		own := writeConfig(t, "agent.conf", "[DEFAULT]", "host = "+host, "compute_driver = fake.FakeDriver",
			basicCalls("placement", account),
			"endpoint_override = "+p.urls["placement"], "cafile = "+ca.File, "[compute]", "auth_section = placement",
			"endpoint_override = "+c.urls["compute"], "cafile = "+ca.File)
		return []string{"agent", "--config-file", base, "--config-file", own, "--data-dir", filepath.Join(dir, host)}
	}}
}

// Separate processes with http_basic: users of two projects, wrong passwords, and agents that may speak for their own
// host only.
func TestHTTPBasicOfSeparateServices(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	cloud := startBasicCloud(t)
	all, root, ann := cloud.services, cloud.trust(basicLogin("root")), cloud.trust(basicLogin("ann"))
	a := start(t, nil, cloud.agent("cmp1", "agent1")...)
	hostsOf := func() (hosts []struct{ Host, Account string }) {
		if err := json.Unmarshal([]byte(root.ok(t, all, "host", "list", "-o", "json")), &hosts); err != nil {
			t.Fatal(err)
		}
		return hosts
	}
	testenv.Until(t, "the agent has reported", func() (bool, error) { return len(hostsOf()) == 1, nil })
	if h := hostsOf()[0]; h.Host != "cmp1" || h.Account != "agent1" {
		t.Errorf("%+v", h)
	}
	if shown := root.ok(t, all, "host", "show", "cmp1"); !strings.Contains(shown, "agent1") {
		t.Errorf("no account in %s", shown)
	}
	testProjectsOfServers(t, cloud, root, ann, cloud.trust(basicLogin("bob")))
	testWrongCredentials(t, cloud)

	a.stop(t)
	a = start(t, nil, cloud.agent("cmp1", "ann")...)
	a.logs(t, "berth: Policy does not allow placement:resource_providers:list to be performed.; this is the answer "+
		"to GET /resource_providers", "correct the account of [placement], which needs the role service")
	a = start(t, nil, cloud.agent("cmp1", "agent2")...)
	a.logs(t, "account agent2 may not speak for host cmp1", "berth host bind cmp1 agent2")
	ann.refused(t, all, []string{"needs the role admin"}, "host", "bind", "cmp1", "agent2")
	root.ok(t, all, "host", "bind", "cmp1", "agent2")
	ann.ok(t, all, "server", "create", "after-binding", "--flavor", "small", "--wait")
	a.stop(t)
	a = start(t, nil, cloud.agent("cmp1", "agent1")...)
	a.logs(t, "account agent1 may not speak for host cmp1")
	root.ok(t, all, "host", "unbind", "cmp1")
	testenv.Until(t, "the agent is bound again", func() (bool, error) { return hostsOf()[0].Account == "agent1", nil })
	root.refused(t, all, []string{"cmp2"}, "host", "unbind", "cmp2")
	for _, d := range []*daemon{a, all[1], all[0]} {
		d.stop(t)
		if strings.Contains(d.log.String(), "-secret") {
			t.Errorf("a log contains a password:\n%s", d.log)
		}
	}
}

// logs waits until the log of a daemon contains these words.
func (d *daemon) logs(t *testing.T, words ...string) {
	t.Helper()
	for _, word := range words {
		testenv.Until(t, "the log contains "+word, func() bool { return strings.Contains(d.log.String(), word) })
	}
}

// testProjectsOfServers checks that the users of two projects see only their own servers.
func testProjectsOfServers(t *testing.T, cloud *basicCloud, root, ann, bob login) {
	t.Helper()
	services := cloud.services
	root.ok(t, services, "flavor", "create", "small", "--vcpus", "1", "--ram", "64")
	for name, user := range map[string]login{"anns": ann, "bobs": bob} {
		user.ok(t, services, "server", "create", name, "--flavor", "small", "--wait")
	}
	list := func(user string, all bool) (names []string) {
		account, err := identity.ServiceCalls{Type: identity.BasicAccount, Name: user, Password: user + "-secret"}.Account()
		if err != nil {
			t.Fatal(err)
		}
		client := compute.NewClient(services[1].urls["compute"], tlsClient(cloud.ca), "")
		client.REST.Account = account
		servers, err := client.Servers(t.Context(), compute.ListServers{AllProjects: all})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range servers {
			names = append(names, s.Name)
		}
		return names
	}
	if a, b := list("ann", false), list("bob", false); len(a) != 1 || a[0] != "anns" || len(b) != 1 || b[0] != "bobs" {
		t.Errorf("users list %v and %v", a, b)
	}
	if names := list("root", true); len(names) != 2 {
		t.Errorf("an administrator lists %v", names)
	}
	ann.ok(t, services, "server", "show", "anns")
	ann.refused(t, services, []string{"bobs"}, "server", "show", "bobs")
	ann.refused(t, services, []string{"bobs"}, "server", "delete", "bobs")
	for name, user := range map[string]login{"anns": ann, "bobs": bob} {
		user.ok(t, services, "server", "delete", name)
	}
}

// testWrongCredentials checks commands without an account, with a wrong password, with an incomplete account, and
// without the CA.
func testWrongCredentials(t *testing.T, cloud *basicCloud) {
	t.Helper()
	wrong := cloud.trust(login{"OS_AUTH_TYPE=http_basic", "OS_USERNAME=ann", "OS_PASSWORD=a-wrong-password"})
	for _, command := range [][]string{{"server", "list"}, {"provider", "list"}} {
		if _, stderr, status := wrong.run(t, cloud.services, command...); status != 1 ||
			!strings.Contains(stderr, "the name or the password is wrong") || strings.Contains(stderr, "a-wrong") {
			t.Errorf("%v: status %d: %s", command, status, stderr)
		}
		for want, l := range map[string]login{"no name and password": {},
			"OS_PASSWORD is not set": {"OS_AUTH_TYPE=http_basic", "OS_USERNAME=ann"},
			`"v3oidcpassword"`:       {"OS_AUTH_TYPE=v3oidcpassword"}} {
			cloud.trust(l).refused(t, cloud.services, []string{want}, command...)
		}
		basicLogin("ann").refused(t, cloud.services, []string{"is not trusted", "--ca-file"}, command...)
	}
}

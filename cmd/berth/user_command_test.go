package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// runUser runs a command of `berth user` in this process; it returns the status and the outputs.
func runUser(args ...string) (status int, stdout, stderr string) {
	var out, messages bytes.Buffer
	status = run(append([]string{"user"}, args...), &out, &messages)
	return status, out.String(), messages.String()
}

// A mistyped file is named, beside the empty list.
func TestListOfMissingUserFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "htpaswd")
	status, out, messages := runUser("list", "--user-file", file, "-o", "json")
	if status != 0 || out != "[]\n" || !strings.Contains(messages, "there is no user file "+file) {
		t.Errorf("status %d %s%s", status, out, messages)
	}
}

// basicRequest sends a request with a name and a password, and returns the status of the answer.
func basicRequest(t *testing.T, url, name, password string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	must(t, err)
	r.SetBasicAuth(name, password)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}

// Accounts that `berth user` adds, changes and removes are used by running services without a restart.
func TestUsersOfRunningServices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users := filepath.Join(dir, "htpasswd")
	config := writeConfig(t, "berth.conf", "[api]\nauth_strategy = http_basic\n[DEFAULT]\nhttp_basic_auth_user_file = "+
		users)
	status, out, messages := runUser("add", "root", "--role", "admin", "--config-file", config, "-o", "json")
	var root struct{ Name, Project, Password string }
	if status != 0 || json.Unmarshal([]byte(out), &root) != nil || root.Project != "root" || len(root.Password) < 20 {
		t.Fatalf("%d %s %s", status, out, messages)
	}
	d := start(t, []string{"compute"}, "up", "--config-file", config, "--data-dir", filepath.Join(dir, "data"),
		"--listen-placement", "127.0.0.1:0", "--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0",
		"--listen-image", "127.0.0.1:0")
	hypervisors := d.urls["compute"] + "/v2.1/os-hypervisors"
	if got := basicRequest(t, hypervisors, "root", root.Password); got != http.StatusOK {
		t.Fatalf("root: %d", got)
	}
	secret := filepath.Join(dir, "secret")
	must(t, os.WriteFile(secret, []byte("for ann\nnot this\n"), 0o600))
	eventual := func(what, password string, want int) {
		t.Helper()
		testenv.Until(t, fmt.Sprintf("%s: %d", what, want), func() (bool, error) {
			got := basicRequest(t, hypervisors, "ann", password)
			return got == want, fmt.Errorf("it is %d", got)
		})
	}
	for _, step := range []struct {
		args     []string
		password string
		want     int
	}{
		{[]string{"add", "ann", "--project", "red", "--password-file", secret}, "for ann", http.StatusForbidden},
		{[]string{"set", "ann", "--role", "admin", "--role", "service"}, "for ann", http.StatusOK},
		{[]string{"set", "ann", "--role", "member"}, "for ann", http.StatusForbidden},
		{[]string{"password", "ann"}, "for ann", http.StatusUnauthorized},
		{[]string{"remove", "ann"}, "for ann", http.StatusUnauthorized},
	} {
		if status, out, messages := runUser(append(step.args, "--config-file", config)...); status != 0 {
			t.Fatalf("%v: %d %s %s", step.args, status, out, messages)
		}
		eventual(strings.Join(step.args, " "), step.password, step.want)
	}
	if _, out, _ := runUser("list", "--config-file", config); !strings.Contains(out, "root  root     admin") ||
		strings.Contains(out, "ann") {
		t.Error(out)
	}
}

// Mistakes of the operator are named.
func TestUserCommandMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "htpasswd")
	if status, _, messages := runUser("add", "bob", "--user-file", file); status != 0 {
		t.Fatal(messages)
	}
	noauth := writeConfig(t, "berth.conf", "[api]\nauth_strategy = noauth2\n[DEFAULT]\nhttp_basic_auth_user_file = "+file)
	for want, args := range map[string][]string{
		"account bob exists":           {"add", "bob", "--user-file", file},
		`there is no account "eve"`:    {"password", "eve", "--user-file", file},
		"nothing to change":            {"set", "bob", "--user-file", file},
		"is not the name of a project": {"set", "bob", "--project", "a:b", "--user-file", file},
		"--role must be one of":        {"add", "carol", "--role", "amdin", "--user-file", file},
		"cannot read --password-file":  {"password", "bob", "--password-file", "/no/such", "--user-file", file},
		"cannot open the directory":    {"add", "bob", "--user-file", "/no/such/directory/htpasswd"},
		"do not use the accounts":      {"list", "--config-file", noauth},
		"does not exist":               {"list", "--config-file", "/no/such.conf"},
	} {
		if _, _, messages := runUser(args...); !strings.Contains(messages, want) {
			t.Errorf("%v: %s; want %s", args, messages, want)
		}
	}
}

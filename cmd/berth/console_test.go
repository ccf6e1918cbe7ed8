package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// consoleUser is a user of the console without script.
type consoleUser struct {
	t *testing.T
	*http.Client
	url string
}

// page returns the status and the text of a page.
func (u consoleUser) page(path string) (status int, text string) {
	u.t.Helper()
	return u.read(u.Get(u.url + path))
}

func (u consoleUser) read(answer *http.Response, err error) (status int, text string) {
	u.t.Helper()
	must(u.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(u.t, err)
	return answer.StatusCode, string(body)
}

// signInToConsole signs a user in and returns the page that follows.
func signInToConsole(t *testing.T, address string, fields url.Values) (u consoleUser, status int, text string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	u = consoleUser{t, &http.Client{Jar: jar}, address}
	_, page := u.page("/sign-in")
	match := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
	if match == nil {
		t.Fatalf("there is no form: %s", page)
	}
	fields.Set("form", match[1])
	status, text = u.read(u.PostForm(address+"/sign-in", fields))
	return u, status, text
}

// The console of `berth up`, and `berth console` beside it, show the devices of the cloud to administrators only, who
// sign in with their passwords.
func TestConsole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := writeConfig(t, "accounts.conf", "[api]\nauth_strategy = http_basic\n[DEFAULT]\n"+
		"http_basic_auth_user_file = "+filepath.Join(dir, "htpasswd"))
	passwords := map[string]string{}
	for user, role := range map[string]string{"root": "admin", "ann": "member"} {
		status, out, messages := runUser("add", user, "--role", role, "--config-file", config, "-o", "json")
		var account struct{ Password string }
		if status != 0 || json.Unmarshal([]byte(out), &account) != nil {
			t.Fatalf("%d %s %s", status, out, messages)
		}
		passwords[user] = account.Password
	}
	d := start(t, []string{"console", "berth", "placement"}, "up", "--config-file", conf(t, machine(t, 2, 4)),
		"--config-file", config, "--data-dir", filepath.Join(dir, "data"), "--listen-placement", "127.0.0.1:0",
		"--listen-compute", "127.0.0.1:0", "--listen-network", "127.0.0.1:0", "--listen-image", "127.0.0.1:0")
	beside := berth(t, "console", "--listen", "127.0.0.1:0", "--url", d.urls["berth"])
	beside.Env = append(beside.Env, "OS_AUTH_TYPE=http_basic", "HOME="+dir, "PATH="+os.Getenv("PATH"))
	for name, address := range map[string]string{"up": d.urls["console"],
		"console": startCommand(t, []string{"console"}, beside).urls["console"]} {
		u, status, text := signInToConsole(t, address, url.Values{"user": {"root"}, "password": {passwords["root"]}})
		if status != http.StatusOK || !strings.Contains(text, `data-row="cmp1"`) ||
			!strings.Contains(text, "CUSTOM_VF 0000:10:00.0: 4 free") {
			t.Errorf("%s: the fleet for root: %d %s", name, status, text)
		}
		if status, text := u.page("/fleet?q=no-such"); status != http.StatusOK || strings.Contains(text, `data-row`) {
			t.Errorf("%s: a search: %d %s", name, status, text)
		}
		for path, want := range map[string]string{"/hosts/cmp1": `id="d-0000:10:00.0"`, "/servers": "No server matches",
			"/events": "data-stream", "/ask?resources=CUSTOM_VF:2": ">2 candidates, on 1 host<",
			"/ask?resources=CUSTOM_VF:9": "These cannot hold together", "/classes": "0 of 8", "/audit": "Audit"} {
			if status, text := u.page(path); status != http.StatusOK || !strings.Contains(text, want) {
				t.Errorf("%s: %s for root: %d %s", name, path, status, text)
			}
		}
		testenv.Until(t, "the audit for root", func() (bool, error) {
			_, text := u.page("/audit")
			return strings.Contains(text, "No differences"), nil
		})
		u, status, text = signInToConsole(t, address, url.Values{"user": {"ann"}, "password": {passwords["ann"]}})
		if status != http.StatusForbidden || !strings.Contains(text, "Not permitted") || strings.Contains(text, "0000:10") {
			t.Errorf("%s: the fleet for ann: %d %s", name, status, text)
		}
		if status, text := u.page("/servers"); status != http.StatusOK || !strings.Contains(text, "of your project") {
			t.Errorf("%s: the servers for ann: %d %s", name, status, text)
		}
		for path, want := range map[string]string{"/classes": "Not permitted", "/audit": "Not permitted",
			"/ask?resources=VCPU:1": "candidates: "} {
			testenv.Until(t, path+" for ann", func() (bool, error) {
				_, text := u.page(path)
				return strings.Contains(text, want), nil
			})
		}
		_, status, text = signInToConsole(t, address, url.Values{"user": {"root"}, "password": {"wrong"}})
		if status != http.StatusForbidden || !strings.Contains(text, "The sign-in failed") {
			t.Errorf("%s: a wrong password: %d %s", name, status, text)
		}
	}
	for user, want := range map[string]int{"root": http.StatusBadRequest, "ann": http.StatusForbidden} {
		if got := emptyAllocation(t, d.urls["placement"], user, passwords[user]); got != want {
			t.Errorf("a write without content by %s: %d", user, got)
		}
	}
	if log := d.log.String(); strings.Contains(log, passwords["root"]) || strings.Contains(log, "page not written") {
		t.Errorf("the log is %s", log)
	}
}

// emptyAllocation returns the status of a write without content to Placement, with which the console finds out whether
// a user may heal differences.
func emptyAllocation(t *testing.T, placement, user, password string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut,
		placement+"/allocations/10000000-0000-4000-8000-000000000001", strings.NewReader("{}"))
	must(t, err)
	request.SetBasicAuth(user, password)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("OpenStack-API-Version", "placement 1.39")
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	must(t, answer.Body.Close())
	return answer.StatusCode
}

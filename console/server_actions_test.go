package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/openberth/berth/console/view"
)

// A server is moved to the host that the page has shown, and a move is ended, with the form of the session only.
func TestServerActions(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, func() view.Source { return made(6) })
	s.withServers()
	var got []string
	s.apis["/v2.1/servers/"+serverID+"/action"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		_ = json.NewDecoder(r.Body).Decode(&body)
		got = append(got, fmt.Sprint(body))
		if body["revertResize"] != nil || len(got) > 3 {
			w.WriteHeader(http.StatusConflict)
			_ = jsonTo(w, doc{"conflictingRequest": doc{"message": "it is not resized"}})
			return
		}
		w.WriteHeader(http.StatusAccepted)
	})
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}})
	_, _, text := v.page(v.Get(s.URL + serverPath(serverID) + "/migrate"))
	form := field.FindStringSubmatch(text)[1]
	act := func(fields ...string) (string, int, string) {
		values := url.Values{"form": {form}}
		for i := 0; i < len(fields); i += 2 {
			values.Set(fields[i], fields[i+1])
		}
		return v.page(v.PostForm(s.URL+serverPath(serverID)+"/act", values))
	}
	for _, fields := range [][]string{{"do", "cold", "to", "cmp-00005"}, {"do", "live", "to", "cmp-00005"},
		{"do", "confirm"}} {
		if path, status, text := act(fields...); path != serverPath(serverID) || status != http.StatusOK {
			t.Errorf("%v: %s %d %s", fields, path, status, text)
		}
	}
	_, status, text := act("do", "revert")
	if status != http.StatusConflict || !strings.Contains(text, "it is not resized") {
		t.Errorf("revert: %d %s", status, text)
	}
	want := "[map[migrate:map[host:cmp-00005]] map[os-migrateLive:map[block_migration:auto host:cmp-00005]] " +
		"map[confirmResize:<nil>] map[revertResize:<nil>]]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
	for _, c := range []struct {
		fields []string
		status int
		text   string
	}{
		{[]string{"do", "delete"}, http.StatusBadRequest, "names no change"},
		{[]string{"do", "cold"}, http.StatusBadRequest, "names no host"},
		{[]string{"do", "cold", "to", "cmp-00005", "form", "x"}, http.StatusForbidden, "not of this session"},
	} {
		if _, status, text := act(c.fields...); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%v: %d %s", c.fields, status, text)
		}
	}
	if len(got) != 4 {
		t.Errorf("%v were sent", got[4:])
	}
}

// A page of a server shows what can be done with it: nothing while a task is in progress.
func TestOfferedActions(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, func() view.Source { return made(6) })
	s.withServers()
	placed := s.apis["/v2.1/servers/"+serverID].(doc)["server"].(doc)
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}})
	for _, c := range []struct {
		status, task string
		want         string // buttons of: console, move, confirm
		again        bool
	}{{"ACTIVE", "", "yes yes no", false}, {"ACTIVE", "migrating", "yes no no", true},
		{"SHUTOFF", "", "no yes no", false}, {"VERIFY_RESIZE", "", "yes no yes", false}} {
		placed["status"], placed["OS-EXT-STS:task_state"] = c.status, c.task
		_, _, text := v.page(v.Get(s.URL + serverPath(serverID)))
		has := map[bool]string{true: "yes", false: "no"}
		got := has[strings.Contains(text, "Serial console")] + " " + has[strings.Contains(text, "Migrate…")] + " " +
			has[strings.Contains(text, "Confirm…")]
		if got != c.want || strings.Contains(text, `http-equiv="refresh"`) != c.again {
			t.Errorf("%s, %s: %s, want %s: %s", c.status, c.task, got, c.want, text)
		}
	}
	s.apis["/berth/v1/hosts/cmp-00004/drain"] = doc{"moves": []any{doc{"server": serverID, "reason": "it is locked"}}}
	_, _, text := v.page(v.Get(s.URL + serverPath(serverID) + "/migrate"))
	if strings.Contains(text, "This will happen") ||
		!strings.Contains(text, "The server cannot be moved now: it is locked") {
		t.Error(text)
	}
}

// A console of a guest is requested with the rights of the user, and its page is where browsers reach compute.
func TestGuestConsole(t *testing.T) {
	t.Parallel()
	s := newSite(t, WithToken, func() view.Source { return made(6) })
	s.withServers()
	var got []string
	s.apis["/v2.1/servers/"+serverID+"/remote-consoles"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]map[string]string
		_ = json.NewDecoder(r.Body).Decode(&body)
		one := body["remote_console"]
		got = append(got, one["protocol"]+" "+one["type"])
		_ = jsonTo(w, doc{"remote_console": doc{"url": "http://compute/console/serial.html?token=t"}})
	})
	v := s.visitor(t)
	v.signIn(url.Values{"token": {"admin"}})
	_, _, text := v.page(v.Get(s.URL + serverPath(serverID)))
	values := url.Values{"form": field.FindStringSubmatch(text)[1:2], "type": {"novnc"}}
	open := func() string {
		_, _, text := v.page(v.PostForm(s.URL+serverPath(serverID)+"/console", values))
		return text
	}
	if text := open(); !strings.Contains(text, `href="http://compute/console/serial.html?token=t"`) {
		t.Error(text)
	}
	values.Set("type", "serial")
	s.console.Cloud.Compute = "https://0.0.0.0:8774"
	if text := open(); !strings.Contains(text, `href="https://127.0.0.1:8774/console/serial.html?token=t"`) {
		t.Error(text)
	}
	if fmt.Sprint(got) != "[vnc novnc serial serial]" {
		t.Errorf("%q", got)
	}
	s.apis["/v2.1/servers/"+serverID+"/remote-consoles"] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_ = jsonTo(w, doc{"conflictingRequest": doc{"message": "Instance is not ready"}})
	})
	if text := open(); !strings.Contains(text, "Instance is not ready") {
		t.Error(text)
	}
}

// The address of a console is that at which the browser reaches compute.
func TestReached(t *testing.T) {
	for _, c := range []struct{ compute, at, want string }{
		{"", "console:8780", "http://compute/console/x?token=t"},
		{"http://127.0.0.1:8774", "127.0.0.1:8780", "http://127.0.0.1:8774/console/x?token=t"},
		{"http://[::]:8774", "cloud.example:8780", "http://cloud.example:8774/console/x?token=t"},
		{"https://0.0.0.0:8774", "[2001:db8::1]:8780", "https://[2001:db8::1]:8774/console/x?token=t"},
	} {
		got, err := Cloud{Compute: c.compute}.reached("http://compute/console/x?token=t", c.at)
		if err != nil || got != c.want {
			t.Errorf("%s from %s: %s, %v", c.compute, c.at, got, err)
		}
	}
}

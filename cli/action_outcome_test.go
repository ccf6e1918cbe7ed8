package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// actionCloud is a compute service with one server, whose views change with each action and each reading.
type actionCloud struct {
	*httptest.Server
	before object   // the server before the action
	after  []object // after it, one for each reading; the last one repeats
	trail  []object // the history that the action adds
	acted  bool
}

type object = map[string]any

// newActionCloud returns a cloud whose server had an earlier move that failed.
func newActionCloud(t *testing.T) *actionCloud {
	c := &actionCloud{before: object{"id": "s", "name": "web", "status": "ACTIVE", "OS-EXT-SRV-ATTR:host": "h1"}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			c.acted = true
			w.WriteHeader(http.StatusAccepted)
			return
		}
		var answer object
		now := c.before
		if c.acted {
			now = c.after[0]
		}
		switch r.URL.Path {
		case "/berth/v1/servers/s/why":
			trail := []object{{"at": "2026-11-01T00:00:00Z", "times": 1, "text": "the guest failed on h9: an earlier move"}}
			if c.acted {
				trail = append(trail, c.trail...)
			}
			answer = object{"why": object{"id": "s", "status": now["status"], "task": now["OS-EXT-STS:task_state"],
				"trail": trail}}
		case "/v2.1/flavors/new":
			answer = object{"flavor": object{"id": "new"}}
		default:
			answer = object{"server": now}
			if c.acted && len(c.after) > 1 {
				c.after = c.after[1:]
			}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// run runs a command line and returns standard output, standard error and the error.
func (c *actionCloud) run(t *testing.T, line string) (stdout, stderr string, failed error) {
	t.Helper()
	var out, notes strings.Builder
	g := &Globals{}
	commands := NewCommands()
	parser, err := kong.New(&struct {
		*Globals
		*Commands
	}{g, &commands})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := parser.Parse(append(strings.Fields(line), "--compute-url", c.URL))
	if err != nil {
		t.Fatal(err)
	}
	g.Stdout, g.Stderr = &out, &notes
	failed = parsed.Run(g)
	return out.String(), notes.String(), failed
}

// A command that waits fails if the action did not happen, and prints the reason once. Lines of earlier operations are
// not printed.
func TestWaitingCommandFailsIfActionWasNotDone(t *testing.T) {
	const full = "No valid host was found: no other host has a free device."
	view := func(status, task, host, fault string) object {
		o := object{"id": "s", "name": "web", "status": status, "OS-EXT-SRV-ATTR:host": host}
		if task != "" {
			o["OS-EXT-STS:task_state"] = task
		}
		if fault != "" {
			o["fault"] = object{"code": 500, "message": fault, "created": "2026-11-01T00:00:01Z"}
		}
		return o
	}
	for name, c := range map[string]struct {
		line   string
		before object
		after  []object
		want   string // the error; empty: none
		hint   bool   // confirm and revert are named
	}{
		"migrate undone": {"server migrate web", nil,
			[]object{view("RESIZE", "resize_prep", "h1", ""), view("ACTIVE", "", "h1", full)},
			"server web was not migrated: No valid host was found: no other host has a free device", false},
		"migrate undone, no fault shown": {"server migrate web", nil, []object{view("ACTIVE", "", "h1", "")},
			"server web was not migrated: it is ACTIVE on h1", false},
		"migrated": {"server migrate web", nil,
			[]object{view("RESIZE", "resize_prep", "h1", ""), view("VERIFY_RESIZE", "", "h2", "")}, "", true},
		"live migration undone": {"server migrate web --live", nil,
			[]object{view("MIGRATING", "migrating", "h1", ""), view("ACTIVE", "", "h1", "The live migration failed on h2: x.")},
			"server web was not migrated: The live migration failed on h2: x", false},
		"migrated live": {"server migrate web --live", nil, []object{view("ACTIVE", "", "h2", "")}, "", false},
		"resize undone": {"server resize web --flavor new", nil, []object{view("ACTIVE", "", "h1", full)},
			"server web was not resized: No valid host", false},
		"unshelve undone": {"server unshelve web", view("SHELVED_OFFLOADED", "", "", ""),
			[]object{view("SHELVED_OFFLOADED", "spawning", "", ""), view("SHELVED_OFFLOADED", "", "", full)},
			"server web was not unshelved: No valid host", false},
		"stop refused": {"server stop web", nil, []object{view("ACTIVE", "", "h1", "The guest cannot be stopped on h1: x.")},
			"server web was not stopped: The guest cannot be stopped on h1: x", false},
		"started again by another user": {"server stop web", nil, []object{view("ACTIVE", "", "h1", "")},
			"server web was not stopped: it is ACTIVE on h1", false},
		"in ERROR without a fault": {"server start web", nil, []object{view("ERROR", "", "h1", "")},
			"server web is in ERROR: the service shows no fault", false},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := newActionCloud(t)
			if c.before != nil {
				cloud.before = c.before
			}
			cloud.after = c.after
			cloud.trail = []object{{"at": "2026-11-01T00:00:01Z", "times": 1, "text": "moving the allocations"},
				{"at": "2026-11-01T00:00:02Z", "times": 1, "text": full + " It goes back to h1."}}
			stdout, stderr, err := cloud.run(t, strings.Replace(c.line, "web", "s", 1)+" --wait")
			text := ""
			if err != nil {
				text = err.Error()
			}
			if c.want == "" && err != nil || !strings.Contains(text, c.want) {
				t.Errorf("the error is %q, want %q", text, c.want)
			}
			if n := strings.Count(stdout+stderr+text, "no other host has a free device"); n > 1 {
				t.Errorf("the reason is printed %d times:\n%s%s%s", n, stdout, stderr, text)
			}
			if strings.Contains(stderr, "an earlier move") {
				t.Errorf("a line of an earlier operation is printed:\n%s", stderr)
			}
			confirm, revert := strings.Contains(stderr, "`berth server confirm web`"),
				strings.Contains(stderr, "`berth server revert web`")
			if confirm != c.hint || revert != c.hint {
				t.Errorf("confirm and revert are named: %v %v, want %v:\n%s", confirm, revert, c.hint, stderr)
			}
		})
	}
}

// Every action that a command can wait for has an outcome.
func TestEveryWaitedActionHasAnOutcome(t *testing.T) {
	server := newServerCmd()
	actions := []string{"reboot", "rebuild", "resize", "migrate", "os-migrateLive", "evacuate"}
	for _, c := range []ServerActionCmd{server.Stop, server.Start, server.Confirm, server.Revert, server.Shelve,
		server.Unshelve, server.Restore} {
		actions = append(actions, c.action)
	}
	for _, action := range actions {
		if outcomes[action].participle == "" {
			t.Errorf("the action %s has no outcome", action)
		}
	}
	for action := range outcomes {
		if !slices.Contains(actions, action) {
			t.Errorf("no command waits for the action %s", action)
		}
	}
}

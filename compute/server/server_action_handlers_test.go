package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/condition"
)

// runningServer creates a server of flavor one that runs on host1, and returns its id.
func (h *fixture) runningServer(name string) (id string) {
	h.Helper()
	id = h.server(h.admin, name, "one")
	h.assign(id, "host1")
	h.apply(id, lifecycle.GuestRunning{Host: "host1"})
	return id
}

// status returns the status, vm_state and task_state of a server.
func (h *fixture) status(id string) string {
	h.Helper()
	s, err := h.admin.Server(h.Context(), id)
	if err != nil {
		h.Fatal(err)
	}
	task := "-"
	if s.TaskState != nil {
		task = *s.TaskState
	}
	return s.Status + " " + s.VMState + " " + task
}

// putReport sends a report of a host.
func (h *fixture) putReport(name string) {
	h.Helper()
	r := host.Report{Host: name, Instance: "a", Start: "s", Provider: string(rootID), Conditions: []condition.Condition{}}
	if err := h.hosts.PutReport(h.Context(), r); err != nil {
		h.Fatal(err)
	}
}

// TestActionStatusAndServerState checks the status code of each action and the state of the server after it.
func TestActionStatusAndServerState(t *testing.T) {
	for _, c := range []struct {
		name, version, body string
		code                int
		status              string
	}{
		{"stop", "2.1", `{"os-stop": null}`, 202, "ACTIVE active powering-off"},
		{"start a running server", "2.1", `{"os-start": null}`, 409, "ACTIVE active -"},
		{"reboot", "2.1", `{"reboot": {"type": "SOFT"}}`, 202, "REBOOT active rebooting"},
		{"reboot hard", "2.1", `{"reboot": {"type": "HARD"}}`, 202, "HARD_REBOOT active rebooting_hard"},
		{"reboot with an unknown type", "2.1", `{"reboot": {"type": "GENTLE"}}`, 400, "ACTIVE active -"},
		{"pause", "2.1", `{"pause": null}`, 202, "ACTIVE active pausing"},
		{"unpause a running server", "2.1", `{"unpause": null}`, 409, "ACTIVE active -"},
		{"suspend", "2.1", `{"suspend": null}`, 202, "ACTIVE active suspending"},
		{"resume a running server", "2.1", `{"resume": null}`, 409, "ACTIVE active -"},
		{"rescue", "2.1", `{"rescue": {"adminPass": "secret", "rescue_image_ref": "` + imageID + `"}}`, 200,
			"ACTIVE active rescuing"},
		{"rescue without an image", "2.1", `{"rescue": null}`, 400, "ACTIVE active -"},
		{"rescue with an unknown key", "2.1", `{"rescue": {"image": "` + imageID + `"}}`, 400, "ACTIVE active -"},
		{"unrescue a running server", "2.1", `{"unrescue": null}`, 409, "ACTIVE active -"},
		{"rebuild", "2.1", `{"rebuild": {"imageRef": "` + imageID + `"}}`, 202, "REBUILD active rebuilding"},
		{"rebuild without an image", "2.1", `{"rebuild": {}}`, 400, "ACTIVE active -"},
		{"resize", "2.1", `{"resize": {"flavorRef": "two"}}`, 202, "RESIZE active resize_prep"},
		{"resize to the same flavor", "2.1", `{"resize": {"flavorRef": "one"}}`, 400, "ACTIVE active -"},
		{"resize to an unknown flavor", "2.1", `{"resize": {"flavorRef": "none"}}`, 400, "ACTIVE active -"},
		{"confirm without a resize", "2.1", `{"confirmResize": null}`, 409, "ACTIVE active -"},
		{"revert without a resize", "2.1", `{"revertResize": null}`, 409, "ACTIVE active -"},
		{"migrate", "2.1", `{"migrate": null}`, 202, "RESIZE active resize_prep"},
		{"migrate to a host", "2.56", `{"migrate": {"host": "host2"}}`, 202, "RESIZE active resize_prep"},
		{"migrate to an unknown host", "2.56", `{"migrate": {"host": "nowhere"}}`, 400, "ACTIVE active -"},
		{"migrate to a host before 2.56", "2.55", `{"migrate": {"host": "host2"}}`, 400, "ACTIVE active -"},
		{"migrate to its own host", "2.56", `{"migrate": {"host": "host1"}}`, 400, "ACTIVE active -"},
		{"live migration", "2.30", `{"os-migrateLive": {"host": null, "block_migration": "auto"}}`, 202,
			"MIGRATING active migrating"},
		{"live migration, 2.1", "2.1",
			`{"os-migrateLive": {"host": "host2", "block_migration": false, "disk_over_commit": false}}`, 202,
			"MIGRATING active migrating"},
		{"forced live migration", "2.30", `{"os-migrateLive": {"host": "host2", "block_migration": "auto", "force": true}}`,
			400,
			"ACTIVE active -"},
		{"evacuate", "2.29", `{"evacuate": {}}`, 200, "REBUILD active rebuilding"},
		{"evacuate, 2.1", "2.1", `{"evacuate": {"host": "host2", "onSharedStorage": "False"}}`, 200,
			"REBUILD active rebuilding"},
		{"shelve", "2.1", `{"shelve": null}`, 202, "SHELVED shelved shelving_offloading"},
		{"offload a server that is not shelved", "2.1", `{"shelveOffload": null}`, 409, "ACTIVE active -"},
		{"unshelve a server that is not shelved", "2.1", `{"unshelve": null}`, 409, "ACTIVE active -"},
		{"force delete", "2.1", `{"forceDelete": null}`, 202, "ACTIVE active deleting"},
		{"reset to error", "2.1", `{"os-resetState": {"state": "error"}}`, 202, "ERROR error -"},
		{"reset to an unknown state", "2.1", `{"os-resetState": {"state": "good"}}`, 400, "ACTIVE active -"},
		{"no action", "2.1", `{}`, 400, "ACTIVE active -"},
		{"two actions", "2.1", `{"os-stop": null, "os-start": null}`, 400, "ACTIVE active -"},
		{"an unknown action", "2.1", `{"explode": null}`, 400, "ACTIVE active -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := start(t)
			h.flavor("one", map[string]string{})
			h.flavor("two", map[string]string{})
			h.putReport("host2")
			id := h.runningServer("s")
			r := h.at(c.version, http.MethodPost, "/v2.1/servers/"+id+"/action", c.body)
			if got := h.status(id); r.status != c.code || got != c.status {
				t.Errorf("%d %s: %s, want %d: %s", r.status, r.text, got, c.code, c.status)
			}
			if c.code == 409 && !strings.Contains(r.text, `"conflictingRequest"`) {
				t.Error(r.text)
			}
		})
	}
}

// TestUsersMayNotActAsOperatorsOrOnOtherProjects checks that users may not run the actions of operators, and may not
// act on servers of other projects.
func TestUsersMayNotActAsOperatorsOrOnOtherProjects(t *testing.T) {
	h := start(t)
	h.flavor("one", map[string]string{})
	mine, others := h.server(h.client("ann:p1"), "s", "one"), h.runningServer("t")
	for _, body := range []string{`{"migrate": null}`, `{"evacuate": {}}`, `{"os-resetState": {"state": "active"}}`} {
		if r := h.ask(http.MethodPost, "/v2.1/servers/"+mine+"/action", body); r.status != 403 {
			t.Errorf("%s: %d %s", body, r.status, r.text)
		}
	}
	if r := h.ask(http.MethodPost, "/v2.1/servers/"+others+"/action", `{"os-stop": null}`); r.status != 404 {
		t.Errorf("%d %s", r.status, r.text)
	}
	for _, path := range []string{"/v2.1/os-migrations", "/v2.1/os-services"} {
		if r := h.ask(http.MethodGet, path, ""); r.status != 403 {
			t.Errorf("%s: %d", path, r.status)
		}
	}
}

// TestSnapshotSetsNoAttributes checks that metadata of a snapshot are properties of the image, and not its attributes.
func TestSnapshotSetsNoAttributes(t *testing.T) {
	h := start(t)
	h.flavor("one", map[string]string{})
	id := h.runningServer("web")
	for _, key := range []string{"visibility", "protected", "owner", "locations"} {
		r := h.at("2.1", http.MethodPost, "/v2.1/servers/"+id+"/action",
			`{"createImage": {"name": "copy", "metadata": {"app": "web", "`+key+`": "x"}}}`)
		if r.status != http.StatusBadRequest || !strings.Contains(r.text, key+" is an attribute of the image") {
			t.Errorf("%s: %d %s", key, r.status, r.text)
		}
	}
}

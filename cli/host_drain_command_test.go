package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
)

// drainedHost is a compute whose host cmp1 has the server s, with a plan to migrate it live. Unless live is true, a
// live migration leaves the server on its host, as after the refusal of a hypervisor.
type drainedHost struct {
	*httptest.Server
	live    bool
	actions []string
	changes []string // requests that change the host or its devices, and the query of the plan
	at      string
	resized bool
}

func newDrainedHost(t *testing.T, live bool) *drainedHost {
	d := &drainedHost{live: live, at: "cmp1"}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(d.answer(t, r)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *drainedHost) answer(t *testing.T, r *http.Request) any {
	type object = map[string]any
	if r.Method == http.MethodPut || r.URL.RawQuery != "" && strings.HasSuffix(r.URL.Path, "/drain") {
		d.changes = append(d.changes, r.Method+" "+r.URL.String())
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /berth/v1/hosts/cmp1":
		vf := host.Device{Address: "0000:3b:00.1", Parent: "0000:3b:00.0"}
		if len(d.changes) > 0 {
			vf.Disabled, vf.Disablements = true, []host.DisabledDevice{{ID: "d", Address: vf.Parent}}
		}
		return host.Report{Host: "cmp1", Devices: []host.Device{vf}}
	case "PUT /berth/v1/hosts/cmp1/devices/0000:3b:00.0/disabled":
		return host.DisabledDevice{ID: "d", Address: "0000:3b:00.0", Requested: true}
	case "GET /v2.1/os-services":
		return object{"services": []object{{"host": "cmp1", "id": "1"}}}
	case "GET /berth/v1/hosts/cmp1/drain":
		return object{"moves": []host.PlannedMove{{Server: "s", Name: "web", Action: host.MoveLive, To: "cmp2",
			Reason: "port p"}}}
	case "GET /v2.1/servers/s":
		status := "ACTIVE"
		if d.resized {
			status = "VERIFY_RESIZE"
		}
		s := object{"id": "s", "name": "web", "status": status, "OS-EXT-SRV-ATTR:host": d.at}
		if !d.live {
			s["fault"] = object{"code": 500, "message": "the driver refuses", "created": "2026-01-01T00:00:00Z"}
		}
		return object{"server": s}
	case "POST /v2.1/servers/s/action":
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		for action := range body {
			d.actions = append(d.actions, action)
			if action != "os-migrateLive" || d.live {
				d.at, d.resized = "cmp2", action == "migrate"
			}
		}
	}
	return nil
}

// A planned live migration that the hypervisor refuses is followed by a cold one, which is confirmed. --cold does not
// try the live one.
func TestHostDrainFallsBackToCold(t *testing.T) {
	for name, test := range map[string]struct {
		live, cold bool
		actions    []string
		action     string
		reason     string
	}{
		"live": {live: true, actions: []string{"os-migrateLive"}, action: host.MoveLive, reason: "port p"},
		"refused": {actions: []string{"os-migrateLive", "migrate", "confirmResize"}, action: host.MoveCold,
			reason: "the live migration failed: the driver refuses"},
		"--cold": {live: true, cold: true, actions: []string{"migrate", "confirmResize"}, action: host.MoveCold,
			reason: "--cold"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrainedHost(t, test.live)
			var out strings.Builder
			command := &HostDrainCmd{Host: "cmp1", Cold: test.cold, Each: commandTime}
			err := command.Run(&Globals{ComputeURL: d.URL, Token: "admin", Stdout: &out, Stderr: io.Discard,
				OutputFlags: OutputFlags{Output: "json"}})
			var got []drainedServer
			if err != nil || json.Unmarshal([]byte(out.String()), &got) != nil || len(got) != 1 ||
				!slices.Equal(d.actions, test.actions) {
				t.Fatalf("%v, actions %q, printed %s", err, d.actions, out.String())
			}
			if got[0].Result != "moved" || got[0].To != "cmp2" || got[0].Action != test.action || got[0].Reason != test.reason {
				t.Errorf("%+v", got[0])
			}
		})
	}
}

// A drain of a device disables the device, not the host, and moves only the servers that have it. A device that is
// disabled keeps its reason.
func TestHostDrainOfADevice(t *testing.T) {
	d := newDrainedHost(t, true)
	plan := "GET /berth/v1/hosts/cmp1/drain?device=0000%3A3b%3A00.0"
	for _, want := range [][]string{{"PUT /berth/v1/hosts/cmp1/devices/0000:3b:00.0/disabled", plan}, {plan}} {
		before := len(d.changes)
		var out strings.Builder
		command := &HostDrainCmd{Host: "cmp1", Device: "0000:3B:00.0", Reason: "draining", Each: commandTime}
		err := command.Run(&Globals{ComputeURL: d.URL, Stdout: &out, Stderr: io.Discard})
		if got := d.changes[before:]; err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: requests %v, want %v", err, got, want)
		}
		if !strings.Contains(out.String(), "berth device enable cmp1 0000:3b:00.0") {
			t.Errorf("%s", &out)
		}
	}
}

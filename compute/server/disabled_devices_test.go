package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// TestDisabledDevices disables and enables devices: what the API shows, what the agent receives, and what is refused.
func TestDisabledDevices(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	h, ctx := startWith(t, func(with *Options) { with.Now = func() time.Time { return now } }), t.Context()
	const pf, vf, gpu, gone = "0000:3b:00.0", "0000:3b:10.1", "10000:00:02.0", "0000:99:00.0"
	r := report("host1")
	put := func() {
		t.Helper()
		if err := h.hosts.PutReport(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	shown := func(address string) host.Device {
		t.Helper()
		devices, err := h.hosts.Devices(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range devices {
			if d.Address == address {
				return d
			}
		}
		return host.Device{}
	}
	operator := host.Client{REST: &rest.Client{Base: h.url, Headers: map[string]string{"X-Auth-Token": "admin"}}}
	disable := func(address, reason string, until time.Time) (host.DisabledDevice, error) {
		return operator.DisableDevice(ctx, "host1", address, host.DisableDevice{Reason: reason, Until: until})
	}
	refused := func(kind fault.Kind, err error, words ...string) {
		t.Helper()
		if !fault.Is(err, kind) {
			t.Fatalf("%v, want %s", err, kind)
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q is not in %q", word, err)
			}
		}
	}
	_, err := disable(gpu, "fan", time.Time{})
	refused(fault.NotFound, err, "host1")
	put()
	_, err = disable(gone, "fan", time.Time{})
	refused(fault.NotFound, err, gone, pf, vf, gpu)
	_, err = disable("nonsense", "fan", time.Time{})
	refused(fault.Invalid, err, "nonsense")
	_, err = disable(gpu, " ", time.Time{})
	refused(fault.Invalid, err, "reason")
	_, err = disable(gpu, "two\nlines", time.Time{})
	refused(fault.Invalid, err, "one line")
	_, err = disable(gpu, "fan", now)
	refused(fault.Invalid, err, "2026-03-04T05:06:07Z")
	refused(fault.NotFound, operator.EnableDevice(ctx, "host1", gone), gone)
	if r := h.ask(http.MethodPut, "/berth/v1/hosts/host1/devices/"+gpu+"/disabled", `{"reason":"fan"}`, "X-Auth-Token",
		"ann"); r.status != http.StatusForbidden {
		t.Errorf("as a user: %d", r.status)
	}

	watching, stop := context.WithCancel(ctx)
	defer stop()
	lines, _ := watchHost(watching, h.hosts, "host1", 0)
	nextLine(t, lines)
	until := now.Add(time.Hour)
	made, err := disable(pf, "link errors", until)
	if err != nil || made.ID == "" || !made.Until.Equal(until) || !made.Requested {
		t.Fatalf("%+v %v", made, err)
	}
	line := nextLine(t, lines)
	if list := line.DisabledDevices; len(list) != 1 || list[0].ID != made.ID || list[0].Address != pf ||
		list[0].Reason != "link errors" || !list[0].Until.Equal(until) {
		t.Errorf("%+v", line)
	}
	if d := shown(vf); !d.Disabled || len(d.Disablements) != 1 || d.Disablements[0].ID != made.ID ||
		!d.Disablements[0].Requested || shown(gpu).Disabled {
		t.Errorf("%+v", d)
	}
	refused(fault.Conflict, operator.EnableDevice(ctx, "host1", vf), "disabled with its PF "+pf, "link errors")
	reported := made
	reported.Requested = false
	r.DisabledDevices = []host.DisabledDevice{reported,
		{ID: "found", Address: gone, Reason: "XID 79", Since: now, Check: true}}
	r.Devices[0].Disabled, r.Devices[1].Disabled = true, true
	put()
	if d := shown(pf); !d.Disabled || len(d.Disablements) != 1 || d.Disablements[0].Requested {
		t.Errorf("%+v", d)
	}
	if d := shown(gone); d.State != "removed" || !d.Gone() || len(d.Disablements) != 1 || !d.Disablements[0].Check {
		t.Errorf("a device that its agent has disabled and that is gone: %+v", d)
	}

	for _, address := range []string{pf, gone, gone} {
		if err := operator.EnableDevice(ctx, "host1", address); err != nil {
			t.Fatal(err)
		}
		line = nextLine(t, lines)
	}
	var asked []string
	for _, e := range line.EnableDevices {
		asked = append(asked, e.ID)
	}
	if len(asked) != 2 || !slices.Contains(asked, made.ID) || !slices.Contains(asked, "found") ||
		len(line.DisabledDevices) != 0 {
		t.Errorf("%+v", line)
	}
	if d := shown(pf); !d.Disabled || !d.Disablements[0].Lifted {
		t.Errorf("the agent has not answered yet: %+v", d)
	}
	r.DisabledDevices = nil
	r.Devices[0].Disabled, r.Devices[1].Disabled = false, false
	put()
	for address, reason := range map[string]string{pf: "link errors", gone: "XID 79"} {
		if d := shown(address); !d.Disabled || !d.Disablements[0].Lifted || d.Disablements[0].Reason != reason {
			t.Errorf("Placement still has %s as reserved: %+v", address, d)
		}
	}
	r.EnabledDevices = asked
	put()
	if d := shown(pf); d.Disabled || len(d.Disablements) > 0 || shown(gone).Address != "" {
		t.Errorf("%+v", d)
	}
	if err := operator.EnableDevice(ctx, "host1", pf); err != nil { // it is not disabled
		t.Error(err)
	}
	if line = nextLine(t, lines); len(line.EnableDevices) != 1 || line.EnableDevices[0].Address != pf ||
		len(line.DisabledDevices) > 0 {
		t.Errorf("after the answer, one request that releases what is reserved: %+v", line)
	}
	if _, err := disable(gpu, "fan", until); err != nil {
		t.Fatal(err)
	}
	nextLine(t, lines)
	now = until
	if shown(gpu).Disabled {
		t.Error("it is shown after its end")
	}
	r.DisabledDevices = []host.DisabledDevice{{Address: "nonsense"}}
	refused(fault.Invalid, h.hosts.PutReport(ctx, r), "nonsense")
}

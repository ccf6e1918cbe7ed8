package server

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// report returns the report of a host with a PF, its VF and a PCI device.
func report(name string) host.Report {
	return host.Report{Host: name, Instance: "a", Start: "s", Provider: string(rootID),
		Conditions: []condition.Condition{condition.New(condition.Hardware, "0000:3c:00.0", "0000:3c:00.0: cannot be read")},
		InPlace:    true, Devices: []host.Device{
			{Host: name, Address: "0000:3b:00.0", VendorID: "8086", ProductID: "154d", Type: "type-PF", NUMANode: 0,
				Driver: "ixgbe", IOMMUGroup: 12,
				ResourceClass: "CUSTOM_NIC", Traits: []string{"CUSTOM_FAST", "HW_NIC_SRIOV"}, Provider: string(deviceID),
				State: "unavailable"},
			{Host: name, Address: "0000:3b:10.1", VendorID: "8086", ProductID: "1515", Type: "type-VF", Parent: "0000:3b:00.0",
				NUMANode: 0, IOMMUGroup: 40,
				ResourceClass: "CUSTOM_NIC", Traits: []string{}, Provider: string(deviceID), State: "allocated", Holder: "server-1",
				RequestID: "request-1"},
			{Host: name, Address: "10000:00:02.0", VendorID: "10de", ProductID: "1db4", Type: "type-PCI", NUMANode: -1,
				IOMMUGroup:    -1,
				ResourceClass: "CUSTOM_PCI_10DE_1DB4", Traits: []string{}, State: "available"},
		}}
}

// TestReportIsStoredAndReplacedAsAWhole checks that the API returns all fields of a report, and that the next report
// replaces all of them.
func TestReportIsStoredAndReplacedAsAWhole(t *testing.T) {
	moment := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	h, ctx := startWith(t, func(o *Options) { o.Now = func() time.Time { return moment } }), t.Context()
	first := report("host1")
	for _, r := range []host.Report{report("host2"), first, first} { // the same report twice
		if err := h.hosts.PutReport(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	want := []host.Report{first, report("host2")}
	for i := range want {
		want[i].Seen, want[i].Start = moment, "" // the API does not show it
		want[i].Account = "agent"
		want[i].Conditions[0] = want[i].Conditions[0].At(moment)
	}
	got, err := h.hosts.Hosts(ctx)
	for i := range got {
		if got[i].Quiet <= 0 || got[i].Quiet > 60 || got[i].Connected {
			t.Errorf("%+v", got[i])
		}
		got[i].Quiet, got[i].SilentAfter = 0, 0
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v (%v)", got, want, err)
	}
	one, err := h.hosts.HostReport(ctx, "host2")
	if one.Quiet, one.SilentAfter = 0, 0; err != nil || !reflect.DeepEqual(one, want[1]) {
		t.Errorf("%+v %v", one, err)
	}
	for _, unknown := range []func() error{
		func() error { _, err := h.hosts.HostReport(ctx, "host3"); return err },
		func() error { _, err := h.hosts.Device(ctx, "host3", "0000:3b:00.0"); return err },
		func() error { _, err := h.hosts.Device(ctx, "host1", "0000:3b:00.9"); return err },
	} {
		if err := unknown(); !fault.Is(err, fault.NotFound) || !strings.Contains(fault.TextOf(err), "did you mean ") {
			t.Error(err)
		}
	}
	for _, want := range first.Devices {
		if d, err := h.hosts.Device(ctx, "host1", want.Address); err != nil || !reflect.DeepEqual(d, want) {
			t.Errorf("%+v %v", d, err)
		}
	}
	devices, err := h.hosts.Devices(ctx)
	if err != nil || len(devices) != 6 || !reflect.DeepEqual(devices[:3], first.Devices) {
		t.Errorf("%+v %v", devices, err)
	}
	if err := h.hosts.PutReport(ctx, host.Report{Host: "host1", Instance: "a", Start: "s",
		Provider: string(rootID)}); err != nil {
		t.Fatal(err)
	}
	r := h.ask("GET", "/berth/v1/hosts", "", "X-Auth-Token", "admin")
	if !strings.Contains(r.text, `"devices":[],"conditions":[]`) {
		t.Errorf("an empty list is not written as []: %s", r.text)
	}
	if devices, err := h.hosts.Devices(ctx); err != nil || len(devices) != 3 {
		t.Errorf("%+v %v", devices, err)
	}
}

func TestInvalidReportsAreRejected(t *testing.T) {
	h := start(t)
	for wantText, spoil := range map[string]func(*host.Report){
		`host "host1", the report host "other"`:  func(r *host.Report) { r.Host = "other" },
		"UUID of the host's root":                func(r *host.Report) { r.Provider = "root" },
		`"3b:00.0" is not a PCI address`:         func(r *host.Report) { r.Devices[0].Address = "3b:00.0" },
		`"x" is not a PCI address`:               func(r *host.Report) { r.Devices[1].Parent = "x" },
		"twice":                                  func(r *host.Report) { r.Devices[1].Address = r.Devices[0].Address },
		`dev_type is "PF"`:                       func(r *host.Report) { r.Devices[0].Type = "PF" },
		"instance must be that of the agent":     func(r *host.Report) { r.Instance = "" },
		"start must be that of the agent":        func(r *host.Report) { r.Start = "" },
		"lock_id must be that of the agent":      func(r *host.Report) { r.LockID = strings.Repeat("x", 129) },
		"at most 32 are accepted":                func(r *host.Report) { r.Previous = make([]string, 33) },
		"state is missing":                       func(r *host.Report) { r.Devices[0].State = "" },
		`conditions[0].level is "bad"; use info`: func(r *host.Report) { r.Conditions[0].Level = "bad" },
		`it is on host "host2"`:                  func(r *host.Report) { r.Devices[2].Host = "host2" },
	} {
		bad := report("host1")
		spoil(&bad)
		body, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		r := h.ask("PUT", "/berth/v1/hosts/host1", string(body), "X-Auth-Token", "admin")
		if message, _ := r.dig("badRequest/message").(string); r.status != 400 || !strings.Contains(message, wantText) {
			t.Errorf("%s: %d %s", wantText, r.status, r.text)
		}
	}
	if hosts, err := h.hosts.Hosts(t.Context()); err != nil || len(hosts) != 0 {
		t.Errorf("%+v %v", hosts, err)
	}
}

// TestSecondAgentOfHostIsRejected checks that a second agent is rejected while the first one is alive. If it continues
// the first one's journal, the response has the time of the next attempt.
func TestSecondAgentOfHostIsRejected(t *testing.T) {
	h, ctx := start(t), t.Context()
	first, copied, other := report("host1"), report("host1"), report("host1")
	first.LockID = "p"
	copied.Start, copied.Previous = "t", []string{"s"}
	other.Instance = "b"
	if err := h.hosts.PutReport(ctx, first); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		report host.Report
		wait   bool
	}{{"a copy of the agent", copied, true}, {"another agent", other, false}} {
		for via, err := range map[string]error{"report": h.hosts.PutReport(ctx, c.report), "stream": h.hosts.Admit(ctx,
			"host1", c.report.Sender())} {
			occupied, waits := errors.AsType[*host.Occupied](err)
			if !fault.Is(err, fault.Conflict) || waits != c.wait ||
				waits && (occupied.Wait <= 0 || occupied.Wait > 2*time.Minute) {
				t.Errorf("%s by %s: %v", c.what, via, err)
			}
			if !strings.Contains(fault.TextOf(err), "another agent serves host host1") || strings.Contains(err.Error(),
				"start=") {
				t.Errorf("%s by %s: %v", c.what, via, err)
			}
		}
	}
	for what, from := range map[string]host.Sender{"the agent itself": first.Sender(),
		"a client that is not an agent": {}} {
		if err := h.hosts.Admit(ctx, "host1", from); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := h.hosts.Admit(ctx, "host2", other.Sender()); err != nil {
		t.Errorf("another host: %v", err)
	}
	if err := h.hosts.Admit(ctx, "host1", host.Sender{Instance: "a"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("without a start: %v", err)
	}
	if hosts, err := h.hosts.Hosts(ctx); err != nil || len(hosts) != 1 || hosts[0].Instance != "a" ||
		hosts[0].Start != "" {
		t.Errorf("%+v %v", hosts, err)
	}
}

package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// disabledDevices checks that a request is in the assignments until the agent has answered or its time has come, and
// that the scheduler does not see the device as free before the agent has reported it.
func disabledDevices(t *testing.T, s *store.Store) {
	ctx := t.Context()
	pf, vf := pci.Address{Bus: 1}, pci.Address{Bus: 1, Slot: 2}
	disable := func(id string, at pci.Address, until time.Time) error {
		return s.DisableDevice(ctx, store.DisabledDevice{Host: "h", Disablement: pci.Disablement{ID: id, Address: at,
			Reason: "fan", Since: noon, Until: until}})
	}
	is(t, disable("a", pf, time.Time{}), fault.NotFound)
	is(t, s.EnableDevice(ctx, "h", pf, nil, "r"), fault.NotFound)
	report := schedule.Host{Name: "h", Provider: "root-h", Seen: noon, Devices: []pci.Offered{
		{Device: pci.Device{Address: pf, Type: pci.Plain}, State: pci.Available},
		{Device: pci.Device{Address: vf, Type: pci.Virtual, Parent: &pf}, State: pci.Available}}}
	must(t, s.PutReport(ctx, report, admitted))
	expect := func(what, assigned, shown string, free int) {
		t.Helper()
		a, err := s.Assignments(ctx, "h")
		must(t, err)
		if got := describeDisabled(a.Devices); got != assigned {
			t.Errorf("%s: the assignments have %q, want %q", what, got, assigned)
		}
		list, err := s.DisabledDevices(ctx, noon.Add(time.Hour))
		must(t, err)
		if got := describeDisabled(list); got != shown {
			t.Errorf("%s: stored are %q, want %q", what, got, shown)
		}
		hosts, err := s.Reports(ctx, []provider.ID{"root-h"})
		must(t, err)
		if got := len(hosts["root-h"].Free()); got != free {
			t.Errorf("%s: %d devices are free, want %d", what, got, free)
		}
	}
	expect("nothing", "", "", 2)
	changed, stop := s.Subscribe("h")
	defer stop()
	must(t, disable("a", pf, time.Time{}))
	select {
	case <-changed:
	default:
		t.Error("the subscriber of the host was not notified")
	}
	expect("the PF", "a", "a", 0)
	must(t, disable("b", pf, noon.Add(2*time.Hour)))
	expect("replaced", "b until 14", "b until 14", 0)
	must(t, s.ResolveDisabled(ctx, "h", []string{"b"}, nil, noon))
	expect("the report of the agent decides now", "b until 14 reported", "b until 14 reported", 2)
	finding := pci.Disablement{ID: "finding", Address: pf, Reason: "XID 79", Since: noon, Check: true}
	must(t, s.EnableDevice(ctx, "h", pf, []pci.Disablement{{ID: "b"}, finding}, "r"))
	const both = "b until 14 enable reported, finding enable reported"
	expect("enabled", both, both, 2)
	must(t, disable("c", pf, noon.Add(time.Minute)))
	must(t, s.ResolveDisabled(ctx, "h", nil, []string{"finding", "c"}, noon))
	expect("answered", "b until 14 enable reported, c until 12", "b until 14 enable reported", 0)
	must(t, s.ResolveDisabled(ctx, "h", nil, []string{"b"}, noon.Add(time.Minute)))
	expect("answered and expired", "", "", 2)
	for _, request := range []string{"r", "another"} {
		must(t, s.EnableDevice(ctx, "h", vf, nil, request))
		expect("nothing is disabled: one request", "r enable reported", "r enable reported", 2)
	}
	must(t, s.ResolveDisabled(ctx, "h", nil, []string{"r"}, noon))
	must(t, disable("d", vf, time.Time{}))
	expect("a VF: its PF is not free either", "d", "d", 0)
	must(t, s.Forget(ctx, "h"))
	list, err := s.DisabledDevices(ctx, noon)
	if must(t, err); len(list) > 0 {
		t.Errorf("after the host was forgotten: %v", list)
	}
}

// describeDisabled returns records as text: id, hour of the end, state.
func describeDisabled(list []store.DisabledDevice) string {
	var out []string
	for _, d := range list {
		text := d.ID
		if !d.Until.IsZero() {
			text += fmt.Sprintf(" until %d", d.Until.Hour())
		}
		if d.Enable {
			text += " enable"
		}
		if d.Reported {
			text += " reported"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

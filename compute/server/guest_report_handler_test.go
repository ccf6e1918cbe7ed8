package server

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

func TestGuestReportsChangeServer(t *testing.T) {
	h, ctx := start(t), t.Context()
	h.flavor("gpu", map[string]string{"pci_passthrough:alias": "gpu:1"})
	id := h.server(h.admin, "s", "gpu")
	h.assign(id, "host1")
	record, err := h.store.Read(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	picked := []host.Picked{{RequestID: record.Requests[0].ID, Address: "0000:3b:00.0", Provider: string(deviceID)}}
	status := func(want string) {
		t.Helper()
		if s, err := h.admin.Server(ctx, id); err != nil || s.Status != want {
			t.Errorf("%s, want %s (%v)", s.Status, want, err)
		}
	}
	for _, step := range []struct {
		host   string
		guest  host.Guest
		status string
	}{
		{"host2", host.Guest{Phase: host.Running}, "BUILD"}, // the server is not on this host
		{"host1", host.Guest{Phase: host.Claimed, Devices: picked}, "BUILD"},
		{"host1", host.Guest{Phase: host.Running, Devices: picked}, "ACTIVE"},
		{"host1", host.Guest{Phase: host.Running, Devices: picked}, "ACTIVE"},
	} {
		if err := h.guest(step.host, id, step.guest); err != nil {
			t.Fatal(err)
		}
		status(step.status)
	}
	if err := h.guest("host2", id, host.Guest{Phase: host.Claimed, Devices: picked}); !fault.Is(err, fault.Conflict) {
		t.Errorf("the claim of a host that does not have the server: %v", err)
	}
	if why, err := h.admin.Why(ctx, id); err != nil || len(why.Devices) != 1 || why.Devices[0].Address != "0000:3b:00.0" {
		t.Errorf("%+v %v", why.Devices, err)
	}
	if err := h.guest("host1", id, host.Guest{Phase: "asleep"}); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "asleep") {
		t.Errorf("%v", err)
	}
	if err := h.guest("host1", id, host.Guest{Phase: host.Running, Devices: []host.Picked{{Address: "x"}}}); !fault.Is(err,
		fault.Invalid) {
		t.Errorf("%v", err)
	}
}

// TestWhyShowsConditionsOfHost checks that administrators see the conditions of its host while a server is built, such
// as the progress of a download, and not afterwards.
func TestWhyShowsConditionsOfHost(t *testing.T) {
	h, ctx := start(t), t.Context()
	h.flavor("small", nil)
	id := h.server(h.admin, "s", "small")
	conditions := func(want ...string) {
		t.Helper()
		why, err := h.admin.Why(ctx, id)
		if err != nil || !slices.Equal(condition.Texts(why.HostConditions), want) {
			t.Errorf("%q %v, want %q", why.HostConditions, err, want)
		}
	}
	conditions()
	h.assign(id, "host1")
	conditions() // no agent has reported for the host
	const progress = "the image a is being downloaded: 300 of 1000 MiB"
	r := host.Report{Host: "host1", Instance: "a", Start: "s", Provider: string(rootID), Devices: []host.Device{},
		Conditions: []condition.Condition{condition.New(condition.Transfer, "", progress)}}
	if err := h.hosts.PutReport(ctx, r); err != nil {
		t.Fatal(err)
	}
	conditions(progress)
	if err := h.guest("host1", id, host.Guest{Phase: host.Running}); err != nil {
		t.Fatal(err)
	}
	conditions()
}

// TestRefusedStopIsShownWithoutError checks that the API shows why the hypervisor refused to stop a guest, and that the
// server is not in ERROR.
func TestRefusedStopIsShownWithoutError(t *testing.T) {
	h, ctx := start(t), t.Context()
	h.flavor("small", nil)
	id := h.server(h.admin, "s", "small")
	h.assign(id, "host1")
	if err := h.guest("host1", id, host.Guest{Phase: host.Running}); err != nil {
		t.Fatal(err)
	}
	h.apply(id, lifecycle.ActionRequested{ID: "w", Action: lifecycle.Stop})
	if err := h.guest("host1", id, host.Guest{Phase: host.Refused, Power: host.On, Message: "no answer to ACPI"}); err !=
		nil {
		t.Fatal(err)
	}
	s, err := h.admin.Server(ctx, id)
	if err != nil || s.Status != "ACTIVE" || s.Fault == nil || !strings.Contains(s.Fault.Message,
		"cannot be stopped on host1: no answer to ACPI") {
		t.Errorf("%s %+v %v", s.Status, s.Fault, err)
	}
	if why, err := h.admin.Why(ctx, id); err != nil || why.Fault != s.Fault.Message || why.Task != "" {
		t.Errorf("%+v %v", why, err)
	}
	h.apply(id, lifecycle.ActionRequested{ID: "again", Action: lifecycle.Stop})
	if s, err := h.admin.Server(ctx, id); err != nil || s.Fault != nil {
		t.Errorf("%+v %v", s.Fault, err)
	}
}

// TestLateGuestReportIsRejected checks that a guest report with a lower number than the last one is rejected.
func TestLateGuestReportIsRejected(t *testing.T) {
	h, ctx := start(t), t.Context()
	h.flavor("small", nil)
	id := h.server(h.admin, "s", "small")
	h.assign(id, "host1")
	send := func(instance string, number int64, phase host.Phase) error {
		return h.hosts.PutGuest(ctx, "host1", id, host.Guest{Phase: phase, Instance: instance, Start: "s", Number: number})
	}
	for _, number := range []int64{5, 5} {
		if err := send("a", number, host.Running); err != nil {
			t.Fatal(err)
		}
	}
	err := send("a", 4, host.Stopped)
	if late, is := errors.AsType[*host.Late](err); !is || late.Number != 5 || !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	if err := send(strings.Repeat("x", 129), 6, host.Failed); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
	if s, err := h.admin.Server(ctx, id); err != nil || s.Status != "ACTIVE" {
		t.Errorf("%s %v", s.Status, err)
	}
	if err := send("a", 6, host.Stopped); err != nil {
		t.Error(err)
	}
	if s, err := h.admin.Server(ctx, id); err != nil || s.Status != "SHUTOFF" {
		t.Errorf("%s %v", s.Status, err)
	}
}

// TestGuestReportMustNameItsAgent checks that a guest report without its agent or its number changes nothing.
func TestGuestReportMustNameItsAgent(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	id := h.server(h.admin, "s", "small")
	h.assign(id, "host1")
	if err := h.guest("host1", id, host.Guest{Phase: host.Running}); err != nil {
		t.Fatal(err)
	}
	for wantText, g := range map[string]host.Guest{
		"instance must be": {Phase: host.Failed, Start: "s", Number: 9},
		"start must be":    {Phase: host.Failed, Instance: "a", Number: 9},
		"number must be":   {Phase: host.Failed, Instance: "a", Start: "s"},
	} {
		if err := h.hosts.PutGuest(t.Context(), "host1", id, g); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), wantText) {
			t.Errorf("%s: %v", wantText, err)
		}
	}
	if s, err := h.admin.Server(t.Context(), id); err != nil || s.Status != "ACTIVE" {
		t.Errorf("%s %v", s.Status, err)
	}
}

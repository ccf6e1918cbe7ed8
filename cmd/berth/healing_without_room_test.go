package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Healing leaves out a server for which there is no room, unless the operator asks for oversubscription. Preflight and
// a condition name the consumers that are not placed on the host: one that compute does not have, and a server of
// another host.
func TestHealingWithoutRoom(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newFleet(t, "")
	f.startAgent("cmp1", f.host("cmp1", bus81(t), "fake_vcpus = 8\n"))
	s := f.wantActiveOn("cmp1", f.createPlain("held", 6))
	f.startAgent("cmp2", f.host("cmp2", bus81(t), "fake_vcpus = 8\n"))
	elsewhere := f.wantActiveOn("cmp2", f.createPlain("elsewhere", 6))
	p := f.placement.placement()
	root, err := p.ProviderByName(t.Context(), "cmp1")
	if err != nil {
		t.Fatal(err)
	}
	// The state after a restore, and claims of an earlier Berth after that.
	if err := p.DeleteAllocation(t.Context(), resource.ConsumerID(s.ID)); err != nil {
		t.Fatal(err)
	}
	const unknown = "0f0f0f0f-0000-4000-8000-000000000000"
	f.allocate(unknown, root.ID, 1)
	f.allocate(elsewhere.ID, root.ID, 2)

	report, status := f.preflight(f.file("empty", ""))
	stops := strings.Join(append(report.Hosts[0].Stops, report.Hosts[1].Stops...), "\n")
	for _, want := range []string{"server held (" + s.ID + ") lacks MEMORY_MB:64,VCPU:6",
		unknown + " has VCPU:1 (compute has no server and no migration with this id)",
		elsewhere.ID + " has VCPU:2 (it is server elsewhere (" + elsewhere.ID + "), which compute has placed on cmp2)"} {
		if status != 1 || !strings.Contains(stops, want) || !strings.Contains(f.conditions("cmp1"), want) {
			t.Errorf("status %d, without %q:\n%s\nconditions: %s", status, want, stops, f.conditions("cmp1"))
		}
	}
	if text := f.conditions("cmp2"); text != "" {
		t.Errorf("cmp2: %s", text)
	}

	out, errs := f.berth(1, "host", "heal", "cmp1", "--apply")
	if !strings.Contains(out, "--oversubscribe writes it without room") ||
		!strings.Contains(errs, "1 allocations on host cmp1 are not as requested") {
		t.Errorf("%s%s", out, errs)
	}
	if n := f.usedVCPUs("cmp1"); n != 3 {
		t.Errorf("%d VCPUs are used", n)
	}
	f.berth(2, "host", "heal", "cmp1", "--apply", "--over") // no such flag
	f.berth(2, "host", "heal", "cmp1", "--oversubscribe")   // without --apply
	f.berth(0, "host", "heal", "cmp1", "--apply", "--oversubscribe")
	if n := f.usedVCPUs("cmp1"); n != 9 {
		t.Errorf("%d VCPUs are used", n)
	}
	if inventories, err := p.Inventories(t.Context(), root.ID); err != nil || inventories.Inventories["VCPU"].Total != 8 {
		t.Errorf("the host has %+v: %v", inventories.Inventories["VCPU"], err)
	}
	if text := f.conditions("cmp1"); strings.Contains(text, "lacks") || !strings.Contains(text, unknown) {
		t.Errorf("the condition is %q", text)
	}
}

// allocate adds VCPUs of a provider to the allocation of a consumer.
func (f *fleet) allocate(consumer string, on provider.ID, vcpus int) {
	f.t.Helper()
	p := f.placement.placement()
	held, err := p.Allocation(f.t.Context(), resource.ConsumerID(consumer))
	if err != nil {
		f.t.Fatal(err)
	}
	if held.Allocation == nil {
		held.Allocation = resource.Allocation{}
	}
	held.Allocation[on] = resource.Amounts{"VCPU": vcpus}
	held.Project, held.User, held.ConsumerType = "p", "u", "INSTANCE"
	if err := p.PutAllocation(f.t.Context(), resource.ConsumerID(consumer), held); err != nil {
		f.t.Fatal(err)
	}
}

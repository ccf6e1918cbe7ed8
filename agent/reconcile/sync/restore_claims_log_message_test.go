package sync

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/pci"
)

// restoreMessage describes how a guest's claims differ from the journal's.
func TestRestoreMessage(t *testing.T) {
	claim := func(bus uint8, state pci.State, counted bool) device.Claim {
		c := device.Claim{Offer: device.Offer{Offered: pci.Offered{
			Device: pci.Device{Address: pci.Address{Bus: bus}}, State: state}}}
		if counted {
			c.Provider = "pf"
		}
		return c
	}
	one := []device.Claim{claim(1, pci.Allocated, false)}
	for want, c := range map[string][2][]device.Claim{
		"without claims in the journal": {nil, one},
		"other devices than":            {one, {claim(2, pci.Allocated, false)}},
		"reporting switched on":         {one, {claim(1, pci.Allocated, true)}},
		"runs with its claimed devices": {{claim(1, pci.Claimed, true)}, {claim(1, pci.Allocated, true)}},
		"those of the guest":            {one, {claim(1, pci.Allocated, false), claim(2, pci.Allocated, false)}},
	} {
		if got := restoreMessage(c[0], c[1]); !strings.Contains(got, want) {
			t.Errorf("%q does not contain %q", got, want)
		}
	}
}

// A VF of a running guest is restored as one for ports from the guest's interface alone: the journal is lost, and the
// rule of the VF is removed.
func TestRestoredVFIsForPorts(t *testing.T) {
	vf, plain := device.PCI(pci.Address{Bus: 1}), device.PCI(pci.Address{Bus: 2})
	guest := hypervisor.Guest{ID: "s1", Devices: []hypervisor.Device{{ID: vf, Request: "r1"}, {ID: plain, Request: "r2"}},
		Interfaces: []hypervisor.Interface{{Port: "p1", VIF: state.HardwareBridge, Device: vf}}}
	set, conflicts, err := restore(nil, journal.State{}, []hypervisor.Guest{guest})
	if err != nil || len(conflicts) > 0 {
		t.Fatalf("%v %v", conflicts, err)
	}
	var got []device.ID
	for _, c := range set.Held("s1") {
		if c.Networked && c.Device.Type == pci.Virtual {
			got = append(got, c.ID())
		}
	}
	if !slices.Equal(got, []device.ID{vf}) {
		t.Errorf("VFs for ports are %v, want only %s", got, vf)
	}
}

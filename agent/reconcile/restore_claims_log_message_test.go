package reconcile

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// restoreMessage describes how a guest's claims differ from the journal's.
func TestRestoreMessage(t *testing.T) {
	claim := func(bus uint8, state device.State, counted bool) device.Claim {
		c := device.Claim{Offer: device.Offer{Device: pci.Device{Address: pci.Address{Bus: bus}}}, State: state}
		if counted {
			c.Provider = "pf"
		}
		return c
	}
	one := []device.Claim{claim(1, device.Allocated, false)}
	for want, c := range map[string][2][]device.Claim{
		"without claims in the journal": {nil, one},
		"other devices than":            {one, {claim(2, device.Allocated, false)}},
		"reporting switched on":         {one, {claim(1, device.Allocated, true)}},
		"runs with its claimed devices": {{claim(1, device.Claimed, true)}, {claim(1, device.Allocated, true)}},
		"those of the guest":            {one, {claim(1, device.Allocated, false), claim(2, device.Allocated, false)}},
	} {
		if got := restoreMessage(c[0], c[1]); !strings.Contains(got, want) {
			t.Errorf("%q does not contain %q", got, want)
		}
	}
}

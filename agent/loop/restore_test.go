package loop

import (
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// What is true of a guest whose claims the journal did not have like that.
func TestNewlyKnown(t *testing.T) {
	claim := func(bus uint8, state device.State, counted bool) device.Claim {
		c := device.Claim{Offer: device.Offer{Device: pci.Device{Address: pci.Address{Bus: bus}}}, State: state}
		if counted {
			c.Provider = "pf"
		}
		return c
	}
	one := []device.Claim{claim(1, device.Allocated, false)}
	for says, c := range map[string][2][]device.Claim{
		"knew nothing of them":    {nil, one},
		"other devices than":      {one, {claim(2, device.Allocated, false)}},
		"reporting is switched":   {one, {claim(1, device.Allocated, true)}},
		"had claimed for it":      {{claim(1, device.Claimed, true)}, {claim(1, device.Allocated, true)}},
		"those that it runs with": {one, {claim(1, device.Allocated, false), claim(2, device.Allocated, false)}},
	} {
		if got := newlyKnown(c[0], c[1]); !strings.Contains(got, says) {
			t.Errorf("%q does not say %q", got, says)
		}
	}
}

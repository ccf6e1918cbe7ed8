package loop

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/pci"
)

// A journal from a backup gives a device to a server that has left since. The guest that has the device now keeps it, a condition says what
// the journal has, and it goes when the agent has removed that from the journal.
func TestJournalFromABackup(t *testing.T) {
	story(t, "a device of a server that has left", func(t *testing.T, w *world) {
		path := filepath.Join(w.options.Dir, "journal")
		_, stop := w.begin()
		w.office.assign(w.want("s1", name1))
		w.untilPhase(host.Running, "s1")
		backup, err := os.ReadFile(path)
		must(t, err)
		had := w.holders()
		w.office.assign()
		w.until("s1 is gone", func() bool { return len(w.running()) == 0 })
		w.office.assign(w.want("s2", name1))
		w.untilPhase(host.Running, "s2")
		w.until("s2 has the device that s1 had", func() bool { return len(w.holders()) == len(had) })
		must(t, stop())
		must(t, os.WriteFile(path, backup, 0o600))
		w.office.silence(true) // until compute sends assignments, nothing is removed
		_, stop = w.begin()
		w.until("a condition", func() bool {
			return strings.Contains(w.office.conditions(), "the journal gives it to server s1, but the guest of server s2 runs with it")
		})
		w.office.silence(false)
		w.until("no condition", func() bool { return w.office.conditions() == "" })
		must(t, stop())
		if got := w.running(); !slices.Equal(got, []string{"s2"}) {
			t.Errorf("guests %v", got)
		}
		w.consistent("s2")
	})
}

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

package guests

import (
	"slices"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// The VFs of a PF that a guest gets as a whole are removed before the guest is built, after their number is recorded,
// and not while those of the guest before are restored.
func TestVFsAreRemovedFirst(t *testing.T) {
	pf := pci.Device{Address: pci.Address{Bus: 0x81}, Type: pci.Physical, NumVFs: 4}
	whole := device.Claim{Offer: device.Offer{Offered: pci.Offered{Device: pf, Slices: 4}}}
	alone := device.Claim{Offer: device.Offer{Offered: pci.Offered{Device: pf}}} // its rule has no shapes
	id := whole.ID()
	w := NewWorks(state.NewCore(state.Config{}, journal.State{}))
	w.Scanned = []pci.Device{pf}
	a := &attempt{want: host.Server{ID: "s1"}}
	if e, err := removeVFs(w, a, []device.Claim{alone}); e != nil || err != nil {
		t.Errorf("a PF that is offered alone: %v %v", e, err)
	}
	w.Restoring[id] = true
	if e, err := removeVFs(w, a, []device.Claim{whole}); e != nil || !fault.Is(err, fault.Unavailable) {
		t.Errorf("while its VFs are restored: %v %v", e, err)
	}
	delete(w.Restoring, id)
	e, err := removeVFs(w, a, []device.Claim{whole})
	if remove, is := e.(state.RemoveVFs); err != nil || !is || remove.Work != "s1" ||
		!slices.Equal(remove.PFs, []device.ID{id}) || w.State.VFs()[id] != 4 {
		t.Errorf("%+v %v, journal %v", e, err, w.State.VFs())
	}
	a.ready.cards = true
	if e, err := removeVFs(w, a, []device.Claim{whole}); e != nil || err != nil {
		t.Errorf("when they are removed: %v %v", e, err)
	}
}

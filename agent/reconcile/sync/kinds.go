package sync

import (
	"maps"
	"slices"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/kind"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// kindOfHost is a kind of devices with what an observation has of it, without Held and Consumers.
type kindOfHost struct {
	kind.Kind
	host kind.Host
}

// interpretKinds adds the devices of other kinds than PCI to what an observation means. They are always reported.
func (s *Syncer) interpretKinds(v *view, parts map[string]any, actual provider.Tree) {
	for _, k := range s.Config.Kinds {
		h := kind.Host{Name: s.Config.Host, Root: v.identity.Provider, Part: parts[k.Name], Actual: actual}
		v.kinds = append(v.kinds, kindOfHost{k, h})
		if h.Part == nil {
			continue
		}
		found := k.Offers(h)
		if !found.Complete {
			found.Offers, found.Devices = keepOffers(k, found.Offers, s.Set), keepDevices(k, found.Devices, s.Scanned)
		}
		v.facts.Report = true
		v.offers, v.present = append(v.offers, found.Offers...), append(v.present, found.Devices...)
	}
}

// keepOffers adds the offers of the devices of a kind that are not among them.
func keepOffers(k kind.Kind, now []device.Offer, before device.Set) []device.Offer {
	for _, e := range before.Entries() {
		if !e.Gone && k.Is(e.Address) && !slices.ContainsFunc(now, func(o device.Offer) bool { return o.ID() == e.ID() }) {
			now = append(now, e.Unheld())
		}
	}
	return now
}

// keepDevices adds the devices of a kind of the last observation that are not among those of this one.
func keepDevices(k kind.Kind, now, before []pci.Device) []pci.Device {
	for _, d := range before {
		if k.Is(d.Address) && !slices.ContainsFunc(now, func(o pci.Device) bool { return o.Address == d.Address }) {
			now = append(now, d)
		}
	}
	return now
}

// split returns the claims on PCI devices, and the kinds with the claims on their devices.
func split(held []device.Claim, kinds []kindOfHost) (rest []device.Claim, withHeld []kindOfHost) {
	rest, withHeld = slices.Clone(held), slices.Clone(kinds)
	for i := range withHeld {
		k := &withHeld[i]
		rest = slices.DeleteFunc(rest, func(c device.Claim) bool {
			if !k.Is(c.Address) {
				return false
			}
			k.host.Held = append(k.host.Held, c)
			return true
		})
	}
	return rest, withHeld
}

// owner returns a function that reports whether a provider is that of a device of one of the kinds.
func owner(kinds []kindOfHost) func(p, root provider.Provider) bool {
	return func(p, root provider.Provider) bool {
		return slices.ContainsFunc(kinds, func(k kindOfHost) bool { return k.Owns(p, root) })
	}
}

// addKinds sets the tree and the notes of the aim: those of package survey, and those of the other kinds of devices.
// uses may be nil for a draft. Invalid: the configuration of a kind cannot be reported.
func (d *planning) addKinds(uses treeplan.Uses) error {
	d.aim.Tree, d.Notes, d.aim.Owns = d.host, d.hostNotes, owner(d.kinds)
	d.aim.Orphans, d.aim.Returned = map[provider.ID]bool{}, maps.Clone(d.aim.Returned)
	for _, k := range d.kinds {
		if k.host.Part == nil {
			continue
		}
		k.host.Consumers = uses
		want, err := k.Desired(d.aim.Tree, k.host)
		if err != nil {
			return err
		}
		d.aim.Tree, d.Notes = want.Tree, slices.Concat(d.Notes, want.Notes)
		for _, id := range want.Orphans {
			d.aim.Orphans[id] = true
		}
		for _, id := range want.Exact { // the reserved amount is computed each time
			d.aim.Returned[id] = true
		}
	}
	return nil
}

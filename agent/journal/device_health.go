package journal

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// deviceHealth is what the journal has of devices beside their claims: those that are out of service, and the VFs of
// PFs.
type deviceHealth struct {
	disabled map[string]pci.Disablement // by id
	reserved map[provider.ID]int
	errors   map[device.ID]Errors
	vfs      map[device.ID]int // of PFs that are given as a whole
}

// Errors are the counters of a device's uncorrectable errors, as last seen.
type Errors struct {
	Fatal, Nonfatal int64
}

// Disabled records that a device is disabled. The record survives the device.
func Disabled(d pci.Disablement) Entry {
	id := device.PCI(d.Address)
	e := Entry{Kind: kindDisabled, Device: &id, ID: d.ID, Reason: d.Reason, At: d.Since.Unix(), Check: d.Check}
	if !d.Until.IsZero() {
		e.Until = d.Until.Unix()
	}
	return e
}

// Enabled deletes the record of a disablement.
func Enabled(id string) Entry { return Entry{Kind: kindEnabled, ID: id} }

// Reserved records how many devices of a provider this agent has reserved in Placement, because they are disabled.
func Reserved(id provider.ID, count int) Entry {
	return Entry{Kind: kindReserved, Provider: id, Count: count}
}

// ErrorsSeen records the error counters of a device.
func ErrorsSeen(id device.ID, n Errors) Entry {
	return Entry{Kind: kindErrors, Device: &id, Fatal: n.Fatal, Nonfatal: n.Nonfatal}
}

// VFs records the number of VFs of a PF that a guest gets as a whole, which the PF must have again when it is free. 0
// deletes the record.
func VFs(pf device.ID, count int) Entry { return Entry{Kind: kindVFs, Device: &pf, Count: count} }

// VFs returns the number of VFs that each PF must have when it is free, of those that were given as a whole.
func (s State) VFs() map[device.ID]int { return cloned(s.devices.vfs) }

// Disabled lists the disablements, by address and id.
func (s State) Disabled() []pci.Disablement { return s.devices.list() }

// Disablement returns a disablement by its id.
func (s State) Disablement(id string) (pci.Disablement, bool) {
	d, known := s.devices.disabled[id]
	return d, known
}

// Reserved returns how many devices of each provider this agent has reserved, because they are disabled.
func (s State) Reserved() map[provider.ID]int { return maps.Clone(s.devices.reserved) }

// ErrorsOf returns the error counters of a device as last seen; ok is false if there is no record.
func (s State) ErrorsOf(id device.ID) (n Errors, ok bool) {
	n, ok = s.devices.errors[id]
	return n, ok
}

func emptyHealth() deviceHealth {
	return deviceHealth{disabled: map[string]pci.Disablement{}, reserved: map[provider.ID]int{},
		errors: map[device.ID]Errors{}, vfs: map[device.ID]int{}}
}

func (h deviceHealth) clone() deviceHealth {
	return deviceHealth{cloned(h.disabled), cloned(h.reserved), cloned(h.errors), cloned(h.vfs)}
}

func (h deviceHealth) size() int {
	return len(h.disabled) + len(h.reserved) + len(h.errors) + len(h.vfs)
}

// list returns the disablements by address and id.
func (h deviceHealth) list() []pci.Disablement {
	var out []pci.Disablement
	for _, id := range slices.Sorted(maps.Keys(h.disabled)) {
		out = append(out, h.disabled[id])
	}
	slices.SortStableFunc(out, func(a, b pci.Disablement) int { return a.Address.Compare(b.Address) })
	return out
}

func (h deviceHealth) apply(e Entry) {
	switch e.Kind {
	case kindDisabled:
		d := pci.Disablement{ID: e.ID, Address: e.Device.Address(), Reason: e.Reason, Since: time.Unix(e.At, 0).UTC(),
			Check: e.Check}
		if e.Until != 0 {
			d.Until = time.Unix(e.Until, 0).UTC()
		}
		h.disabled[e.ID] = d
	case kindEnabled:
		delete(h.disabled, e.ID)
	case kindReserved:
		if h.reserved[e.Provider] = e.Count; e.Count == 0 {
			delete(h.reserved, e.Provider)
		}
	case kindErrors:
		h.errors[*e.Device] = Errors{Fatal: e.Fatal, Nonfatal: e.Nonfatal}
	case kindVFs:
		if h.vfs[*e.Device] = e.Count; e.Count == 0 {
			delete(h.vfs, *e.Device)
		}
	}
}

func (h deviceHealth) entries() (list []Entry) {
	for _, d := range h.list() {
		list = append(list, Disabled(d))
	}
	for _, id := range slices.Sorted(maps.Keys(h.reserved)) {
		list = append(list, Reserved(id, h.reserved[id]))
	}
	for _, id := range slices.SortedFunc(maps.Keys(h.errors), device.ID.Compare) {
		list = append(list, ErrorsSeen(id, h.errors[id]))
	}
	for _, id := range slices.SortedFunc(maps.Keys(h.vfs), device.ID.Compare) {
		list = append(list, VFs(id, h.vfs[id]))
	}
	return list
}

package fleet

import (
	"slices"

	"github.com/openberth/berth/hosttree"
)

// Device is one resource class of a provider that represents a device of a host, with names of its holders.
type Device struct {
	hosttree.Device
	Holders []Holder `json:"holders"` // by consumer
}

// KindOf returns what a provider represents, and the address of its device.
func (v *View) KindOf(p *Provider) (kind hosttree.Kind, address string) {
	return hosttree.KindOf(p, v.HostOf(p))
}

// Devices returns a row for each inventory of the providers of devices, by host, address and class. Inventories of
// hosts, NUMA nodes and other providers are left out.
func (v *View) Devices() []Device {
	rows := v.DeviceRows
	if rows == nil {
		for i := range v.Providers {
			rows = append(rows, hosttree.Devices(&v.Providers[i], v.HostOf(&v.Providers[i]))...)
		}
	}
	rows = slices.Clone(rows)
	hosttree.SortDevices(rows)
	list := make([]Device, len(rows))
	for i, row := range rows {
		list[i] = Device{Device: row, Holders: make([]Holder, len(row.Holders))}
		for j, h := range row.Holders {
			list[i].Holders[j] = v.Holder(h.Consumer, h.Amount)
		}
		list[i].Device.Holders = nil
	}
	return list
}

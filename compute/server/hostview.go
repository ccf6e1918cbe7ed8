package server

import (
	"context"
	"slices"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

func writePresent(list []schedule.Present) []host.Present {
	var out []host.Present
	for _, g := range list {
		out = append(out, host.Present(g))
	}
	return out
}

func writeDevices(h schedule.Host) []host.Device {
	out := make([]host.Device, 0, len(h.Devices))
	for _, d := range h.Devices {
		w := host.Device{Host: h.Name, Address: d.Address.String(), VendorID: d.Vendor, ProductID: d.Product,
			Type: string(d.Type), NUMANode: d.NUMANode, Driver: d.Driver, IOMMUGroup: d.IOMMUGroup,
			ResourceClass: string(d.ResourceClass), Traits: texts(d.Traits), Provider: string(d.Provider),
			State: string(d.State), Holder: d.Holder, RequestID: d.RequestID, ForPorts: d.ForPorts,
			RemoteManaged: d.RemoteManaged, LiveMigratable: string(d.LiveMigratable),
			OneTimeUse: d.OneTimeUse, Spent: d.Spent}
		if d.Parent != nil {
			w.Parent = d.Parent.String()
		}
		out = append(out, w)
	}
	return out
}

// describeDevices converts the devices of a host, with the clean requests of operators.
func describeDevices(h schedule.Host, cleans []store.CleanRequest) []host.Device {
	out := writeDevices(h)
	for _, w := range cleans {
		i := slices.IndexFunc(out, func(d host.Device) bool { return h.Name == w.Host && d.Address == w.Address.String() })
		if i >= 0 {
			out[i].Wanted, out[i].Refused = w.Asked, w.Refused
		}
	}
	return out
}

// unknownHost adds similar host names to a fault of kind NotFound. It returns other errors as they are.
func (s *server) unknownHost(ctx context.Context, name string, err error) error {
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	known, err := s.hostNames(ctx)
	if err != nil {
		return err
	}
	return provider.UnknownHost(name, known)
}

// hostNames lists the hosts whose agents have reported, by name.
func (s *server) hostNames(ctx context.Context) ([]string, error) {
	hosts, err := s.Store.Hosts(ctx)
	names := make([]string, 0, len(hosts))
	for _, h := range hosts {
		names = append(names, h.Name)
	}
	return names, err
}

// texts converts a list of a string type to strings; the result is never nil.
func texts[T ~string](words []T) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}

// hostsAndDead lists the hosts whose agents have reported, and the names of the hosts that an operator has declared
// dead.
func (s *server) hostsAndDead(ctx context.Context) (hosts []schedule.Host, dead []string, err error) {
	if hosts, err = s.Store.Hosts(ctx); err != nil {
		return nil, nil, err
	}
	dead, err = s.Store.Dead(ctx)
	return hosts, dead, err
}

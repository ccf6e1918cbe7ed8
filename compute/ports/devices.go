package ports

import (
	"context"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// devicesOfPorts returns the devices that the agent of the server's host has picked for its ports, by port. It returns
// fault.Unavailable while the report of the host does not have one of them.
func (b *Binder) devicesOfPorts(ctx context.Context, s lifecycle.Server) (map[string]pci.Offered, error) {
	var host schedule.Host
	devices := map[string]pci.Offered{}
	for _, p := range s.Ports {
		picked, needed := s.DeviceOf(p.ID)
		if !needed {
			continue
		}
		if host.Name == "" {
			var err error
			if host, err = b.store.Host(ctx, s.Host); err != nil {
				return nil, err
			}
		}
		at := slices.IndexFunc(host.Devices, func(o pci.Offered) bool { return o.Address.String() == picked.Address })
		if at < 0 {
			return nil, fault.New(fault.Unavailable, "port %s is not bound yet: the report of "+
				"host %s does not have its device %q", p.ID, s.Host, picked.Address)
		}
		devices[p.ID] = host.Devices[at]
	}
	return devices, nil
}

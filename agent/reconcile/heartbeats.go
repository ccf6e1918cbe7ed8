package reconcile

import (
	"github.com/openberth/berth/agent/reconcile/sync"
	"github.com/openberth/berth/bandwidth"
)

// Heartbeats returns what the network service must receive about this host: one heartbeat for each agent type with
// devices for networks. Without report_bandwidth they are not about Placement: Synced is nil. Neutron refuses them.
func (s *State) Heartbeats() []bandwidth.Heartbeat {
	var out []bandwidth.Heartbeat
	for _, a := range s.core.Config.Bandwidth {
		h := bandwidth.Heartbeat{Agent: a.Type, Host: s.core.Config.Host, Configurations: a.Configurations(),
			Providers: a.ProviderIDs(), Root: s.core.Root, Devices: a.HeartbeatDevices(),
			VNICTypes: a.VNICTypes, Provider: bandwidth.Name{Hypervisor: a.DefaultHypervisor, Agent: a.Type}.ID()}
		for i := range h.Devices {
			h.Devices[i].VFs = sync.AddressesOfVFs(s.core.Scanned, h.Devices[i].Name)
		}
		if synced, attempted := s.syncer.Bandwidth.Synced[a.Type]; attempted {
			h.Synced = &synced
		}
		out = append(out, h)
	}
	return out
}

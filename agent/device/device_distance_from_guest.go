package device

import (
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// Near is the placement of a guest on the host's NUMA nodes, for NUMA policies of devices. The zero value is a guest
// without placement: then no device is too far, whatever the policy.
type Near struct {
	Nodes []int         // NUMA nodes of the host that the guest's cells use
	Host  numa.Topology // all NUMA nodes of the host
}

// rank returns the distance of a device from the guest: 0 for near, -1 when the policy does not allow the distance.
func (n Near) rank(d pci.Device, policy pci.NUMAPolicy) int {
	return numa.Rank(policy, d.NUMANode, n.Nodes, n.Host)
}

// Far returns the sum of the distances of the devices picked for these requests; 0 when none could be nearer.
func (n Near) Far(picked []Claim, requests []pci.Request) (far int) {
	for _, c := range picked {
		for _, r := range requests {
			if r.ID == c.RequestID {
				far += max(n.rank(c.Device, r.Policy), 0)
			}
		}
	}
	return far
}

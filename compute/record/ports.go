package record

import (
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// networkRecord is an entry of the networks that a server was created with.
type networkRecord struct {
	Port    string `json:"port_id,omitzero"`
	Network string `json:"network_id,omitzero"`
	FixedIP string `json:"fixed_ip,omitzero"`
	Tag     string `json:"tag,omitzero"`
}

func toNetwork(r lifecycle.NetworkRequest) networkRecord   { return networkRecord(r) }
func fromNetwork(r networkRecord) lifecycle.NetworkRequest { return lifecycle.NetworkRequest(r) }

// portRecord is a port of a server.
type portRecord struct {
	ID          string                 `json:"id,omitzero"`
	Network     string                 `json:"network_id,omitzero"`
	NetworkName string                 `json:"network_name,omitzero"`
	MAC         string                 `json:"mac_address,omitzero"`
	VNIC        string                 `json:"vnic_type,omitzero"`
	Tag         string                 `json:"tag,omitzero"`
	FixedIPs    []addressRecord        `json:"fixed_ips,omitzero"`
	Created     bool                   `json:"created_by_compute,omitzero"`
	Groups      []groupRecord          `json:"request_groups,omitzero"`
	SameSubtree []string               `json:"same_subtree,omitzero"`
	Allocation  map[string]provider.ID `json:"allocation,omitzero"`
	Host        string                 `json:"bound_host,omitzero"`
	VIF         string                 `json:"vif_type,omitzero"`
	Bridge      string                 `json:"bridge_name,omitzero"`
	Device      string                 `json:"pci_slot,omitzero"`
	Revision    int                    `json:"revision,omitzero"`
	VLAN        int                    `json:"vlan,omitzero"`
	DNSName     string                 `json:"given_dns_name,omitzero"`
}

type addressRecord struct {
	Subnet  string `json:"subnet_id,omitzero"`
	Address string `json:"ip_address,omitzero"`
}

func toPort(p lifecycle.Port) portRecord {
	return portRecord{p.ID, p.Network, p.NetworkName, p.MAC, p.VNIC, p.Tag,
		each(p.FixedIPs, func(ip lifecycle.FixedIP) addressRecord { return addressRecord(ip) }), p.Created,
		each(p.Groups, func(g resource.Group) groupRecord { return groupRecord(g) }), p.SameSubtree, p.Allocation,
		p.Host, p.VIF, p.Bridge, p.Device, p.Revision, p.VLAN, p.DNSName}
}

func fromPort(r portRecord) lifecycle.Port {
	return lifecycle.Port{ID: r.ID, Network: r.Network, NetworkName: r.NetworkName, MAC: r.MAC, VNIC: r.VNIC, Tag: r.Tag,
		FixedIPs: each(r.FixedIPs, func(a addressRecord) lifecycle.FixedIP { return lifecycle.FixedIP(a) }),
		Created:  r.Created, Groups: each(r.Groups, func(g groupRecord) resource.Group { return resource.Group(g) }),
		SameSubtree: r.SameSubtree, Allocation: r.Allocation, Host: r.Host, VIF: r.VIF, Bridge: r.Bridge,
		Device: r.Device, Revision: r.Revision, VLAN: r.VLAN, DNSName: r.DNSName}
}

// portChangeRecord is a port that is being attached or detached.
type portChangeRecord struct {
	ID      string         `json:"id,omitzero"`
	Request networkRecord  `json:"request,omitzero"`
	Detach  string         `json:"detach_port_id,omitzero"`
	Device  *requestRecord `json:"device,omitzero"`
	Port    *portRecord    `json:"port,omitzero"`
	Refused string         `json:"refused,omitzero"`
}

// queuedPortRecord is a change of a port that waits.
type queuedPortRecord struct {
	ID      string        `json:"id,omitzero"`
	Request networkRecord `json:"request,omitzero"`
	Detach  string        `json:"detach_port_id,omitzero"`
}

// portOutcomeRecord is the result of a change of a port.
type portOutcomeRecord struct {
	ID      string `json:"id,omitzero"`
	Port    string `json:"port_id,omitzero"`
	Refused string `json:"refused,omitzero"`
}

func toQueuedPort(q lifecycle.QueuedPortChange) queuedPortRecord {
	return queuedPortRecord{q.ID, toNetwork(q.Request), q.Detach}
}

func fromQueuedPort(r queuedPortRecord) lifecycle.QueuedPortChange {
	return lifecycle.QueuedPortChange{ID: r.ID, Request: fromNetwork(r.Request), Detach: r.Detach}
}

func toPortChange(c lifecycle.PortChange) portChangeRecord {
	return portChangeRecord{c.ID, toNetwork(c.Request), c.Detach, optional(c.Device, toRequest), optional(c.Port, toPort),
		c.Refused}
}

func fromPortChange(r portChangeRecord) lifecycle.PortChange {
	return lifecycle.PortChange{ID: r.ID, Request: fromNetwork(r.Request), Detach: r.Detach,
		Device: optional(r.Device, fromRequest), Port: optional(r.Port, fromPort), Refused: r.Refused}
}

package network

// AgentReport is what an agent of Berth reports about one agent type of its host: the body of
// PUT /berth/v1/network-agents/{host}/{agent type}. A report is also the heartbeat of the agent.
type AgentReport struct {
	Binary string `json:"binary"` // such as berth-agent
	Start  string `json:"start"`  // random for each start of the agent
	// Synced is whether Placement has what the agent reports; null: not attempted yet, or the agent reports no bandwidth.
	Synced         *bool          `json:"resources_synced"`
	Root           string         `json:"root,omitempty"`       // the UUID of the host's provider
	Provider       string         `json:"provider,omitempty"`   // the UUID of the provider of packet rates
	VNICTypes      []string       `json:"vnic_types,omitempty"` // that its ports may have; empty: all that it can bind
	Devices        []AgentDevice  `json:"devices"`
	Configurations map[string]any `json:"configurations,omitempty"` // for the agent list, under Neutron's names
}

// AgentDevice is an interface or a bridge of a host, and its provider of bandwidth.
type AgentDevice struct {
	Name             string   `json:"name"`
	Provider         string   `json:"provider,omitempty"`
	PhysicalNetworks []string `json:"physical_networks,omitempty"`
	PCISlots         []string `json:"pci_slots,omitempty"` // the PCI addresses of its VFs
}

// HostPorts is the answer of GET /berth/v1/hosts/{host}/ports?since=REVISION: the ports of a host that have changed
// since a revision, and those that have left the host. With since=0, or if the service does not have all changes since
// the revision any more, Whole is set: Ports has all ports of the host, and others have left it.
type HostPorts struct {
	Revision int64      `json:"revision"` // for the next request
	Whole    bool       `json:"whole"`
	Ports    []HostPort `json:"ports"`
	Left     []string   `json:"left"`
}

// HostPort is what the data plane of a host needs for a port. Rates are in kilobits per second; 0: none.
type HostPort struct {
	ID              string `json:"id"`
	Device          string `json:"device_id"`
	Agent           string `json:"agent_type"` // empty: no agent is responsible
	VIF             string `json:"vif_type"`
	VNIC            string `json:"vnic_type"`
	MAC             string `json:"mac"`
	AdminUp         bool   `json:"admin_state_up"`
	MTU             int    `json:"mtu"`
	PhysicalNetwork string `json:"physical_network,omitempty"`
	NetworkType     string `json:"network_type,omitempty"`
	SegmentationID  int    `json:"segmentation_id,omitempty"` // of a VLAN network the VLAN
	PCISlot         string `json:"pci_slot,omitempty"`
	MinEgress       int    `json:"min_egress_kbps,omitempty"`
	MinIngress      int    `json:"min_ingress_kbps,omitempty"`
	MaxEgress       int    `json:"max_egress_kbps,omitempty"`
	MaxIngress      int    `json:"max_ingress_kbps,omitempty"`
	Trusted         bool   `json:"trusted"`     // binding:profile trusted
	SpoofCheck      bool   `json:"spoof_check"` // port security, and no trust
}

// HostAccount is the body of PUT /berth/v1/hosts/{host}/account.
type HostAccount struct {
	Account string `json:"account"` // the id of the user that the agent of the host uses
}

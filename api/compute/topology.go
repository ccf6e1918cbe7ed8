package compute

// ServerTopology is the NUMA topology of a server (2.78).
type ServerTopology struct {
	Nodes  []TopologyNode `json:"nodes"`
	PageKB *int           `json:"pagesize_kb"` // size of its huge pages; null: small pages
}

// TopologyNode is a NUMA cell of a server. Only operators see where it is on the host.
type TopologyNode struct {
	MemoryMB int         `json:"memory_mb"`
	CPUs     []int       `json:"vcpu_set"`
	Siblings [][]int     `json:"siblings"` // the virtual CPUs that share a core; empty: none is known to
	HostNode *int        `json:"host_node,omitempty"`
	Pinning  map[int]int `json:"cpu_pinning,omitzero"` // dedicated virtual CPU → host thread
}

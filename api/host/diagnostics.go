package host

// Diagnostics is what a running guest has and uses, since it was started: the answer to a ConsoleRequest for it.
type Diagnostics struct {
	Driver      string      `json:"driver"`     // such as libvirt
	Hypervisor  string      `json:"hypervisor"` // such as kvm
	State       string      `json:"state"`      // running, paused, …
	ConfigDrive bool        `json:"config_drive"`
	MemoryKB    int64       `json:"memory_kb"` // that it has
	UsedKB      int64       `json:"used_kb"`   // of the host
	CPUs        []CPUStats  `json:"cpus"`
	Disks       []DiskStats `json:"disks"`
	NICs        []NICStats  `json:"nics"`
}

// CPUStats is the time of one virtual CPU, in nanoseconds.
type CPUStats struct {
	ID   int   `json:"id"`
	Time int64 `json:"time"`
}

// DiskStats is the use of one disk.
type DiskStats struct {
	Name          string `json:"name"` // such as vda
	ReadBytes     int64  `json:"read_bytes"`
	ReadRequests  int64  `json:"read_requests"`
	WriteBytes    int64  `json:"write_bytes"`
	WriteRequests int64  `json:"write_requests"`
	Errors        int64  `json:"errors"` // -1: not known
}

// NICStats is the use of one network interface of the guest that is not a device of the host.
type NICStats struct {
	Name      string `json:"name"` // of the interface of the host
	MAC       string `json:"mac"`
	RXOctets  int64  `json:"rx_octets"`
	RXPackets int64  `json:"rx_packets"`
	RXErrors  int64  `json:"rx_errors"`
	RXDropped int64  `json:"rx_dropped"`
	TXOctets  int64  `json:"tx_octets"`
	TXPackets int64  `json:"tx_packets"`
	TXErrors  int64  `json:"tx_errors"`
	TXDropped int64  `json:"tx_dropped"`
}

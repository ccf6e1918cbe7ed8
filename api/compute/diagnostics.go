package compute

// Diagnostics is what the guest of a server uses (2.48). Memory in MiB, times in nanoseconds, Uptime in seconds.
type Diagnostics struct {
	State        string          `json:"state"`
	Driver       string          `json:"driver"`
	Hypervisor   *string         `json:"hypervisor"`
	HypervisorOS string          `json:"hypervisor_os"`
	Uptime       *int64          `json:"uptime"`
	ConfigDrive  bool            `json:"config_drive"`
	CPUs         int             `json:"num_cpus"`
	NICs         int             `json:"num_nics"`
	Disks        int             `json:"num_disks"`
	Memory       DiagnosedMemory `json:"memory_details"`
	CPUDetails   []DiagnosedCPU  `json:"cpu_details"`
	DiskDetails  []DiagnosedDisk `json:"disk_details"`
	NICDetails   []DiagnosedNIC  `json:"nic_details"`
}

// DiagnosedMemory is a part of Diagnostics.
type DiagnosedMemory struct {
	Maximum int64 `json:"maximum"`
	Used    int64 `json:"used"`
}

// DiagnosedCPU is a part of Diagnostics.
type DiagnosedCPU struct {
	ID          int    `json:"id"`
	Time        int64  `json:"time"`
	Utilisation *int64 `json:"utilisation"` // null: not known
}

// DiagnosedDisk is a part of Diagnostics.
type DiagnosedDisk struct {
	ReadBytes     int64 `json:"read_bytes"`
	ReadRequests  int64 `json:"read_requests"`
	WriteBytes    int64 `json:"write_bytes"`
	WriteRequests int64 `json:"write_requests"`
	Errors        int64 `json:"errors_count"` // -1: not known
}

// DiagnosedNIC is a part of Diagnostics. Rates are null: they are not known.
type DiagnosedNIC struct {
	MAC       string `json:"mac_address"`
	RXOctets  int64  `json:"rx_octets"`
	RXErrors  int64  `json:"rx_errors"`
	RXDropped int64  `json:"rx_drop"`
	RXPackets int64  `json:"rx_packets"`
	RXRate    *int64 `json:"rx_rate"`
	TXOctets  int64  `json:"tx_octets"`
	TXErrors  int64  `json:"tx_errors"`
	TXDropped int64  `json:"tx_drop"`
	TXPackets int64  `json:"tx_packets"`
	TXRate    *int64 `json:"tx_rate"`
}

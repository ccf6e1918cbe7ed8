package compute

// ProjectUsage is what the servers of a project used during a period, in the unit times hours.
type ProjectUsage struct {
	ProjectID string         `json:"tenant_id"`
	Start     string         `json:"start"` // 2006-01-02T15:04:05.000000
	Stop      string         `json:"stop"`
	Hours     float64        `json:"total_hours"`
	VCPUs     float64        `json:"total_vcpus_usage"`
	RAM       float64        `json:"total_memory_mb_usage"`
	Disk      float64        `json:"total_local_gb_usage"`
	Servers   *[]ServerUsage `json:"server_usages,omitempty"`
}

// ServerUsage is what one server used during a period.
type ServerUsage struct {
	ID        string  `json:"instance_id"`
	Name      string  `json:"name"`
	ProjectID string  `json:"tenant_id"`
	Hours     float64 `json:"hours"`
	Flavor    string  `json:"flavor"`
	VCPUs     int     `json:"vcpus"`
	RAM       int     `json:"memory_mb"` // MiB
	Disk      int     `json:"local_gb"`  // root and ephemeral, GiB
	Started   string  `json:"started_at"`
	Ended     *string `json:"ended_at"`
	State     string  `json:"state"`  // vm_state; terminated for a deleted server
	Uptime    int     `json:"uptime"` // seconds
}

package compute

// HypervisorRef is a hypervisor in the list without detail: one for each host.
type HypervisorRef struct {
	ID       any                `json:"id"` // an integer before 2.53; then the UUID of the host's root provider
	Hostname string             `json:"hypervisor_hostname"`
	State    string             `json:"state"`            // up or down
	Status   string             `json:"status"`           // enabled or disabled
	Servers  []HypervisorServer `json:"servers,omitzero"` // if requested; an empty list is shown since 2.75
}

// HypervisorServer is a server on a hypervisor.
type HypervisorServer struct {
	UUID string `json:"uuid"`
	Name string `json:"name"`
}

// Hypervisor is a hypervisor in detail.
type Hypervisor struct {
	HypervisorRef
	Service            HypervisorService `json:"service"`
	*HypervisorAmounts                   // until 2.87
	HostIP             string            `json:"host_ip"`           // as the agent reports it; empty: not known
	CPUInfo            any               `json:"cpu_info,omitzero"` // until 2.87: not reported; "", since 2.28 {}
	Type               string            `json:"hypervisor_type"`
	Version            int               `json:"hypervisor_version"`
	*HypervisorUpFor                     // 2.88
}

// HypervisorUpFor holds how long the machine of a hypervisor has run; null: not known.
type HypervisorUpFor struct {
	Uptime *string `json:"uptime"`
}

// HypervisorService is the compute service of a hypervisor.
type HypervisorService struct {
	ID             any     `json:"id"` // as in ServiceDoc
	Host           string  `json:"host"`
	DisabledReason *string `json:"disabled_reason"`
}

// HypervisorAmounts are what a hypervisor, or all together, have and use. RAM in MiB, disk in GiB.
type HypervisorAmounts struct {
	VCPUs         int  `json:"vcpus"`
	VCPUsUsed     int  `json:"vcpus_used"`
	RAM           int  `json:"memory_mb"`
	RAMUsed       int  `json:"memory_mb_used"`
	RAMFree       int  `json:"free_ram_mb"`
	Disk          int  `json:"local_gb"`
	DiskUsed      int  `json:"local_gb_used"`
	DiskFree      int  `json:"free_disk_gb"`
	DiskAvailable *int `json:"disk_available_least"`
	Servers       int  `json:"running_vms"`
	Workload      int  `json:"current_workload"` // servers with an action in progress
}

// HypervisorStatistics are the sums over all hypervisors.
type HypervisorStatistics struct {
	Count int `json:"count"`
	HypervisorAmounts
}

// HostRef is a host in the list of /os-hosts (until 2.42).
type HostRef struct {
	Name    string `json:"host_name"`
	Service string `json:"service"` // compute
	Zone    string `json:"zone"`
}

// HostResource is one row of a host in /os-hosts (until 2.42): its total, what is used, or what one project uses.
type HostResource struct {
	Project string `json:"project"` // a project, or (total), (used_now), (used_max)
	Host    string `json:"host"`
	CPU     int    `json:"cpu"`
	RAM     int    `json:"memory_mb"`
	Disk    int    `json:"disk_gb"`
}

// Zone is an availability zone.
type Zone struct {
	Name  string                            `json:"zoneName"`
	State ZoneState                         `json:"zoneState"`
	Hosts map[string]map[string]ZoneService `json:"hosts"` // host → service → state; null without detail
}

// ZoneState is the state of an availability zone.
type ZoneState struct {
	Available bool `json:"available"`
}

// ZoneService is the state of a service of a host in an availability zone.
type ZoneService struct {
	Active    bool    `json:"active"`    // enabled
	Available bool    `json:"available"` // up
	Updated   *string `json:"updated_at"`
}

package hypervisor

import "context"

// Diagnosed is implemented by drivers that know what their guests use.
type Diagnosed interface {
	// Diagnostics returns what a running guest uses. NotFound: there is no such guest. Conflict: it does not run.
	Diagnostics(ctx context.Context, id string) (Diagnostics, error)
}

// Diagnostics is what a running guest has and uses, since it was started.
type Diagnostics struct {
	Driver, Hypervisor string // such as libvirt and kvm
	State              string // running, paused, …
	ConfigDrive        bool
	MemoryKB           int64 // that it has
	UsedKB             int64 // of the host
	CPUs               []CPUStats
	Disks              []DiskStats
	NICs               []NICStats
}

// CPUStats is the time of one virtual CPU, in nanoseconds.
type CPUStats struct {
	ID   int
	Time int64
}

// DiskStats is the use of one disk; counts in requests and bytes.
type DiskStats struct {
	Name                                               string // such as vda
	ReadBytes, ReadRequests, WriteBytes, WriteRequests int64
	Errors                                             int64 // -1: not known
}

// NICStats is the use of one network interface of the guest that is not a device of the host.
type NICStats struct {
	Name, MAC                                string // Name is that of the interface of the host
	RXOctets, RXPackets, RXErrors, RXDropped int64
	TXOctets, TXPackets, TXErrors, TXDropped int64
}

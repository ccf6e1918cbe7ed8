package sysfs

// Directories under /sys.
const (
	deviceDir = "bus/pci/devices"
	vdpaDir   = "bus/vdpa/devices"
	nodeDir   = "devices/system/node"
	netDir    = "class/net"
)

// cpuDir has a directory for each CPU: cpu<n>/topology/{physical_package_id,thread_siblings_list}.
const cpuDir = "devices/system/cpu"

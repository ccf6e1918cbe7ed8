package bench

import (
	"fmt"
	"strings"
)

// NestedQuestion returns queries for disk, a NUMA node with CUSTOM_FOO, and an FPGA below it: two candidates in each
// nested tree, for any n. limit 0 returns all.
func NestedQuestion(limit int) func(n int) string {
	return func(n int) string {
		return fmt.Sprintf("/allocation_candidates?resources=DISK_GB:%d&required=COMPUTE_VOLUME_MULTI_ATTACH"+
			"&resources_COMPUTE=VCPU:%d,MEMORY_MB:%d&required_COMPUTE=CUSTOM_FOO&resources_FPGA=FPGA:1&group_policy=none"+
			"&same_subtree=_COMPUTE,_FPGA", 10+n%1000, 1+n%4, 256+n%768) + limited(limit)
	}
}

// NestedMany is the number of candidates in a nested tree for NestedQuestion.
const NestedMany = 2

func limited(limit int) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf("&limit=%d", limit)
}

// Question returns queries for this many devices of a wide world, each in its own group, and for resources of the
// host.
func (w Wide) Question(groups, limit int) func(n int) string {
	var devices strings.Builder
	for i := range groups {
		fmt.Fprintf(&devices, "&resources_%d=%s:1", i, w.class(i))
		if w.mixed && i%3 != 2 { // the others accept any colour
			fmt.Fprintf(&devices, "&required_%d=%s", i, w.traits(i)[0])
		}
	}
	return func(n int) string {
		return fmt.Sprintf("/allocation_candidates?resources=VCPU:%d,MEMORY_MB:%d", 1+n%64, 1+n%4096) + devices.String() +
			"&group_policy=none" + limited(limit)
	}
}

// HallQuestion returns a query for a server with one function on the physical network, with a limit of ten
// candidates.
func HallQuestion(n int) string {
	return fmt.Sprintf(
		"/allocation_candidates?resources=VCPU:%d,MEMORY_MB:%d,DISK_GB:%d&resources_NIC=%s:1&required_NIC=%s&limit=10",
		1+n%4, 256*(1+n%8), 1+n%20, function, physnet)
}

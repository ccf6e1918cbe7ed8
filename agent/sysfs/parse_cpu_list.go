package sysfs

import (
	"slices"
	"strconv"
	"strings"
)

// maxCPU is a limit above the CPU count of any kernel (CONFIG_NR_CPUS is at most 8192 on x86).
const maxCPU = 1 << 16

// ParseCPUList parses the kernel's list format, such as "0-3,8". The numbers are ascending and distinct.
func ParseCPUList(text string) ([]int, error) {
	var cpus []int
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 32)
		last, err2 := strconv.ParseUint(to, 10, 32)
		if err1 != nil || err2 != nil || first > last || last >= maxCPU {
			return nil, invalid("CPU list %s: %s is not a number or range such as 0-3", quoted(text), quoted(part))
		}
		if len(cpus) > maxCPU {
			return nil, invalid("CPU list %q names CPUs again and again", text[:min(32, len(text))])
		}
		for n := first; n <= last; n++ {
			cpus = append(cpus, int(n))
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

package numa

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/resource"
)

// The classes of the provider of a node, which has all that its cell gives to guests with NUMA cells. Guests without
// cells take VCPU and MEMORY_MB of the root only, and guests with cells take those too, so what the last two classes
// count is in addition to the root.
const (
	DedicatedCPUs resource.Class = "PCPU"                  // threads of Cell.Dedicated
	SharedCPUs    resource.Class = "CUSTOM_NUMA_VCPU"      // virtual CPUs on the threads of Cell.CPUs
	SmallMemory   resource.Class = "CUSTOM_NUMA_MEMORY_MB" // MiB of small pages
	pagesPrefix                  = "CUSTOM_MEMORY_PAGES_"
)

// NodeTrait is the trait of the provider of a node.
const NodeTrait resource.Trait = "HW_NUMA_ROOT"

// PagesClass returns the class of huge pages of a size in KiB.
func PagesClass(sizeKB int) resource.Class { return resource.Class(pagesPrefix + strconv.Itoa(sizeKB)) }

// IsNodeClass reports whether a class is one of those of the provider of a node.
func IsNodeClass(c resource.Class) bool {
	return c == DedicatedCPUs || c == SharedCPUs || c == SmallMemory || strings.HasPrefix(string(c), pagesPrefix)
}

// OnNodes reports whether an allocation has what guest cells use of the providers of nodes.
func OnNodes(a resource.Allocation) bool {
	for class := range a.Sum() {
		if class != DedicatedCPUs && IsNodeClass(class) {
			return true
		}
	}
	return false
}

// ProviderName returns the name of the provider of a node, such as cmp1_NUMA0.
func ProviderName(host string, node int) string { return fmt.Sprintf("%s_NUMA%d", host, node) }

// NodeOf returns the node of a provider with this name. ok is false if the name is not that of the provider of a node
// of the host.
func NodeOf(host, name string) (node int, ok bool) {
	number, _ := strings.CutPrefix(name, host+"_NUMA")
	node, err := strconv.Atoi(number)
	return node, err == nil && ProviderName(host, node) == name && node >= 0
}

// Amounts returns what the guest cell takes of the provider of its node. pageKB is the size of its huge pages in KiB, 0
// for small pages.
func (g GuestCell) Amounts(pageKB int) resource.Amounts {
	out := resource.Amounts{DedicatedCPUs: len(g.Dedicated) + g.Emulator, SharedCPUs: len(g.VCPUs) - len(g.Dedicated)}
	if pageKB > 0 {
		out[PagesClass(pageKB)] = pagesFor(g.MemoryMB, pageKB)
	} else {
		out[SmallMemory] = g.MemoryMB
	}
	return out.Positive()
}

// Limited returns the cell with so much in use that no more is free than is left of the provider of its node.
func (c Cell) Limited(left resource.Amounts, limits Limits) Cell {
	free := c.free()
	taken := free[min(max(left[DedicatedCPUs], 0), len(free)):]
	c.Pinned = append(slices.Clone(c.Pinned), taken...)
	slices.Sort(c.Pinned)
	c.Floating = max(c.Floating, int(float64(len(c.CPUs))*ratio(limits.CPU))-left[SharedCPUs])
	c.UsedMemory = max(c.UsedMemory, int(float64(c.small())*ratio(limits.Memory))-left[SmallMemory])
	c.Pages = slices.Clone(c.Pages)
	for i, p := range c.Pages {
		c.Pages[i].Used = max(p.Used, p.Total-left[PagesClass(p.SizeKB)])
	}
	return c
}

// Inventories returns what the provider of the node offers; empty if the cell has no CPUs for guests. The CPUs and the
// memory of one guest are never overcommitted against themselves, so max_unit is the total whatever the ratio.
func (c Cell) Inventories(limits Limits) map[resource.Class]resource.Inventory {
	out := map[resource.Class]resource.Inventory{}
	if len(c.CPUs)+len(c.Dedicated) == 0 {
		return out
	}
	add := func(class resource.Class, total int, ratio float64) {
		if total > 0 {
			inv := resource.Whole(total)
			inv.AllocationRatio = ratio
			out[class] = inv
		}
	}
	add(DedicatedCPUs, len(c.Dedicated), 1)
	add(SharedCPUs, len(c.CPUs), ratio(limits.CPU))
	add(SmallMemory, c.small(), ratio(limits.Memory))
	for _, p := range c.Pages {
		add(PagesClass(p.SizeKB), p.Total, 1)
	}
	return out
}

package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/resource"
)

// AllocationRow is what a server holds of one class of one provider. The bar is in thousandths of its length.
type AllocationRow struct {
	Provider, Host string // Host is empty for a provider of no host, such as shared storage
	Class          resource.Class
	Amount         string
	InUse          string // by all consumers, of what there is
	Others, Own    int    // of the bar
}

// allocation returns what a consumer holds in Placement, by provider and class. c is nil for a user who may not read
// the cloud.
func (c *Cloud) allocation(consumer resource.ConsumerID) (rows []AllocationRow) {
	if c == nil {
		return nil
	}
	for id, amounts := range c.Fleet.Held[consumer] {
		provider := c.Fleet.Provider[id]
		for class, n := range amounts {
			of, used := provider.Inventories[class].Capacity(), provider.Used(class)
			row := AllocationRow{Provider: provider.Name, Host: c.Fleet.HostOf(provider), Class: class, Amount: Number(n),
				InUse: Number(used) + " of " + Number(of)}
			if whole := max(of, used); whole > 0 {
				row.Others, row.Own = (used-n)*1000/whole, max(n*1000/whole, 1)
			}
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b AllocationRow) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Class, b.Class))
	})
	return rows
}

// Miss is a host that lacks little.
type Miss struct {
	HostName
	Lacks []Lack
}

// Lack is one thing that a host lacks.
type Lack struct {
	Text  []Segment
	Need  *NeedBar  // nil: there are no numbers
	Cells []Cell    // of the class on the host, as the cloud was read
	Nodes []NodeBox // of the host, as the cloud was read, if its NUMA nodes have no room
}

// NeedBar is what is used and what is needed of an amount, in thousandths of the larger one of the amount and what was
// used with what is needed.
type NeedBar struct {
	Of, Used, Need int
	Label          string
}

// numaFilter is the filter that refuses hosts because of their NUMA nodes.
const numaFilter = "NUMATopologyFilter"

// maxMissCells is how many cells of a host a miss has.
const maxMissCells = 12

// miss returns the miss of a host with its deficits.
func (c *Cloud) miss(name string, deficits []compute.WhyDeficit) Miss {
	out := Miss{HostName: HostName{Name: name}}
	var h *Host
	if c != nil {
		h = c.byName[name]
		out.Link = h != nil
	}
	for _, d := range deficits {
		lack := Lack{Text: c.Sentence(d.Text)}
		if d.Asks > 0 && d.Of > 0 {
			used := max(d.Of-d.Free, 0)
			whole := max(d.Of, used+d.Asks)
			lack.Need = &NeedBar{Of: d.Of * 1000 / whole, Used: used * 1000 / whole, Need: max(d.Asks*1000/whole, 1),
				Label: fmt.Sprintf("%s: %s needed, %s of %s free", cmp.Or(d.Class, "devices"), Number(d.Asks), Number(d.Free),
					Number(d.Of))}
		}
		if h != nil && h.Report != nil && d.Cause == numaFilter {
			lack.Nodes = c.rooms(h)
		}
		if h != nil && d.Class != "" {
			for _, cell := range h.Cells {
				if string(cell.Class) == d.Class && len(lack.Cells) < maxMissCells {
					lack.Cells = append(lack.Cells, cell)
				}
			}
		}
		out.Lacks = append(out.Lacks, lack)
	}
	return out
}

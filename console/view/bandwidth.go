package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// bandwidths are the classes of guaranteed bandwidth with their names.
var bandwidths = []struct {
	class resource.Class
	name  string
}{{bandwidth.EgressBandwidth, "egress"}, {bandwidth.IngressBandwidth, "ingress"}}

// BandBar is the guaranteed bandwidth of an interface in one direction.
type BandBar struct {
	Name, Text string
	Label      string // what the drawing shows, with the holders
	Parts      []BandPart
}

// BandPart is the part of one holder, in thousandths of the whole.
type BandPart struct {
	X, Width int
	Consumer resource.ConsumerID
}

// bandsOfNIC returns the bars of the guaranteed bandwidth of the NIC of some devices: of the provider that their agent
// names, or of the provider above theirs in Placement.
func (c *Cloud) bandsOfNIC(devices []host.Device) []BandBar {
	for _, d := range devices {
		if p := c.Fleet.Provider[provider.ID(d.Bandwidth)]; p != nil {
			return c.bandBars(p)
		}
		if p := c.bandwidthAbove(c.Fleet.Provider[provider.ID(d.Provider)]); p != nil {
			return c.bandBars(p)
		}
	}
	return nil
}

// bandwidthAbove returns the parent of a provider if it is one of bandwidth; else nil.
func (c *Cloud) bandwidthAbove(p *fleet.Provider) *fleet.Provider {
	if p == nil {
		return nil
	}
	above := c.Fleet.Provider[p.Parent]
	if above == nil {
		return nil
	}
	if kind, _ := c.Fleet.KindOf(above); kind != hosttree.Bandwidth {
		return nil
	}
	return above
}

// bandBars returns the bars of a provider of bandwidth: what is used of all in each direction.
func (c *Cloud) bandBars(p *fleet.Provider) (list []BandBar) {
	_, address := c.Fleet.KindOf(p)
	for _, one := range bandwidths {
		inventory, has := p.Inventories[one.class]
		capacity := inventory.Capacity()
		if !has || capacity <= 0 {
			continue
		}
		bar := BandBar{Name: address + ", " + one.name}
		used := 0
		var consumers []resource.ConsumerID
		for consumer := range p.Held {
			consumers = append(consumers, consumer)
		}
		slices.Sort(consumers)
		var holders []string
		for _, consumer := range consumers {
			n := p.Held[consumer][one.class]
			if n > 0 {
				x, end := used*1000/capacity, (used+n)*1000/capacity
				bar.Parts = append(bar.Parts, BandPart{X: x, Width: max(end-x-2, 1), Consumer: consumer})
				holders = append(holders, fmt.Sprintf("%s %s", c.Fleet.Holder(consumer, n), Number(n/1000)))
			}
			used += n
		}
		bar.Text = Amount{used / 1000, capacity / 1000}.Text() + " Mbit/s"
		bar.Label = bar.Name + ": " + bar.Text
		if len(holders) > 0 {
			bar.Label += " (" + strings.Join(holders, ", ") + ")"
		}
		list = append(list, bar)
	}
	return list
}

package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/resource"
)

// HostPage is the view of one host.
type HostPage struct {
	*Host
	Facts     []Fact
	Problems  []Problem   // the conditions
	Sockets   []Socket    // as its agent reports the machine
	Cards     []*Card     // of a host whose agent reports no devices: as Placement has them
	Bandwidth []BandBar   // guaranteed bandwidth, by interface and direction
	Holders   []HolderRow // who holds something of the host, by name
	Symbols   []Symbol
}

// Problem is a condition of the host.
type Problem struct {
	condition.Condition
	Text, Remedy []Segment
	Mark         Mark // empty: it ends by itself
}

// Fact is a fact with its name.
type Fact struct{ Name, Text string }

// BandBar is the guaranteed bandwidth of an interface in one direction.
type BandBar struct {
	Name, Text string
	Parts      []BandPart
}

// BandPart is the part of one holder, in thousandths of the whole.
type BandPart struct {
	X, Width int
	Consumer resource.ConsumerID
}

// HolderRow is what one consumer holds of a host.
type HolderRow struct {
	fleet.Holder
	Server  bool     // compute has a server with this id
	Amounts []string // by column of amounts
	Devices []string
}

// HostPage returns the view of a host; nil if the cloud has no host with this name.
func (c *Cloud) HostPage(name string) *HostPage {
	h := c.byName[name]
	if h == nil {
		return nil
	}
	p := &HostPage{Host: h}
	for _, one := range h.Conditions {
		p.Problems = append(p.Problems, c.problem(one))
	}
	p.facts(c)
	if h.Report != nil {
		p.Sockets = c.machine(h)
	}
	if h.Report == nil || len(h.Report.Devices) == 0 {
		p.Cards = h.placementCards(c)
	}
	p.hold(c)
	p.draw()
	return p
}

// facts adds the facts below the title.
func (p *HostPage) facts(c *Cloud) {
	add := func(name, text string) {
		if text != "" {
			p.Facts = append(p.Facts, Fact{name, text})
		}
	}
	if r := p.Report; r != nil {
		if !r.Seen.IsZero() {
			add("Last report", r.Seen.UTC().Format("2006-01-02 15:04:05"))
		}
		add("Hypervisor", r.Hypervisor)
		add("Account", r.Account)
		add("Disabled because", r.DisabledReason)
	}
	add("Zone", p.Zone)
	add("Aggregates", strings.Join(p.Aggregates, ", "))
	if units := p.units(); units.Of > 0 {
		add("Devices", units.Text()+", of "+Number(units.Of))
	}
	for _, class := range c.Amounts {
		add(class.Name, p.Amount[class].Text())
	}
	add("Servers", Number(p.Servers))
	add("Provider", string(p.Provider))
}

// bandwidths are the classes of guaranteed bandwidth with their names.
var bandwidths = []struct {
	class resource.Class
	name  string
}{{"NET_BW_EGR_KILOBIT_PER_SEC", "egress"}, {"NET_BW_IGR_KILOBIT_PER_SEC", "ingress"}}

// hold adds who holds what, and the bars of bandwidth.
func (p *HostPage) hold(c *Cloud) {
	held := map[resource.ConsumerID]map[AmountClass]int{}
	devices := map[resource.ConsumerID][]string{}
	for i := range c.Fleet.Providers {
		provider := &c.Fleet.Providers[i]
		if c.Fleet.HostOf(provider) != p.Host.Host {
			continue
		}
		kind, address := c.Fleet.KindOf(provider)
		if kind == hosttree.Bandwidth {
			p.band(provider, address)
		}
		for consumer, amounts := range provider.Held {
			if held[consumer] == nil {
				held[consumer] = map[AmountClass]int{}
			}
			for _, class := range amountClasses {
				held[consumer][class] += amounts[class.Class]
			}
			if kind.IsDevice() {
				for _, class := range amounts.Sorted() {
					devices[consumer] = append(devices[consumer], address+" "+string(class)+":"+Number(amounts[class]))
				}
			}
		}
	}
	for consumer, amounts := range held {
		row := HolderRow{Holder: c.Fleet.Holder(consumer, 0), Server: c.Fleet.Server[consumer] != nil,
			Devices: devices[consumer]}
		slices.Sort(row.Devices)
		for _, class := range c.Amounts {
			text := ""
			if n := amounts[class]; n > 0 {
				text = Number((n + class.Unit - 1) / class.Unit)
			}
			row.Amounts = append(row.Amounts, text)
		}
		p.Holders = append(p.Holders, row)
	}
	slices.SortFunc(p.Holders, func(a, b HolderRow) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.Consumer, b.Consumer))
	})
	slices.SortFunc(p.Bandwidth, func(a, b BandBar) int { return cmp.Compare(a.Name, b.Name) })
}

// band adds the bars of a provider of bandwidth.
func (p *HostPage) band(provider *fleet.Provider, address string) {
	for _, one := range bandwidths {
		inventory, has := provider.Inventories[one.class]
		capacity := inventory.Capacity()
		if !has || capacity <= 0 {
			continue
		}
		bar := BandBar{Name: address + ", " + one.name}
		used := 0
		var consumers []resource.ConsumerID
		for consumer := range provider.Held {
			consumers = append(consumers, consumer)
		}
		slices.Sort(consumers)
		for _, consumer := range consumers {
			n := provider.Held[consumer][one.class]
			if n > 0 {
				x, end := used*1000/capacity, (used+n)*1000/capacity
				bar.Parts = append(bar.Parts, BandPart{X: x, Width: max(end-x-2, 1), Consumer: consumer})
			}
			used += n
		}
		bar.Text = Amount{used / 1000, capacity / 1000}.Text() + " Mbit/s"
		p.Bandwidth = append(p.Bandwidth, bar)
	}
}

// draw adds the symbols of all cells.
func (p *HostPage) draw() {
	ids := map[string]bool{}
	card := func(c *Card) {
		for _, item := range c.Items {
			ids[item.Symbol] = true
		}
	}
	var all func([]*Branch)
	all = func(list []*Branch) {
		for _, b := range list {
			if b.Card != nil {
				card(b.Card)
			}
			all(b.Below)
		}
	}
	for _, s := range p.Sockets {
		for _, n := range s.Nodes {
			all(n.Tree)
		}
	}
	for _, c := range p.Cards {
		card(c)
	}
	p.Symbols = symbols(ids)
}

// problem returns a condition as the page shows it.
func (c *Cloud) problem(one condition.Condition) Problem {
	p := Problem{Condition: one, Text: c.Sentence(one.Problem())}
	if one.Remedy != "" {
		p.Remedy = c.Sentence(one.Remedy)
	}
	switch one.Level {
	case condition.Error:
		p.Mark = Down
	case condition.Warning:
		p.Mark = Condition
	}
	return p
}

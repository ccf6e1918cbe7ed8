package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
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
}

// Problem is a condition of the host.
type Problem struct {
	condition.Condition
	Text, Remedy []Segment
	Mark         Mark // empty: it ends by itself
}

// Fact is a fact with its name.
type Fact struct{ Name, Text string }

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
	p.bands(c)
	return p
}

// lastReport is the name of the fact when the agent has reported last.
const lastReport = "Last report"

// Reported sets when the agent has reported last.
func (p *HostPage) Reported(at time.Time) {
	for i := range p.Facts {
		if p.Facts[i].Name == lastReport {
			p.Facts[i].Text = at.UTC().Format(time.DateTime)
		}
	}
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
			add(lastReport, r.Seen.UTC().Format(time.DateTime))
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

// hold adds who holds what.
func (p *HostPage) hold(c *Cloud) {
	held := map[resource.ConsumerID]map[AmountClass]int{}
	for i := range c.Fleet.Providers {
		provider := &c.Fleet.Providers[i]
		if c.Fleet.HostOf(provider) != p.Host.Host {
			continue
		}
		for consumer, amounts := range provider.Held {
			if held[consumer] == nil {
				held[consumer] = map[AmountClass]int{}
			}
			for _, class := range amountClasses {
				held[consumer][class] += amounts[class.Class]
			}
		}
	}
	devices := p.heldDevices(c)
	for consumer := range devices {
		if held[consumer] == nil {
			held[consumer] = map[AmountClass]int{}
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
}

// heldDevices returns what each consumer holds of the devices of the host, each with its class: the address of the
// device that the agent reports, as of a VF, and else that of the provider with the amount that is held of it.
func (p *HostPage) heldDevices(c *Cloud) map[resource.ConsumerID][]string {
	type part struct {
		consumer resource.ConsumerID
		provider provider.ID
		class    resource.Class
	}
	devices, reported := map[resource.ConsumerID][]string{}, map[part]int{}
	if p.Report != nil {
		for _, d := range p.Report.Devices {
			if d.Holder != "" {
				holder := resource.ConsumerID(d.Holder)
				devices[holder] = append(devices[holder], d.Address+" "+d.ResourceClass)
				reported[part{holder, provider.ID(d.Provider), resource.Class(d.ResourceClass)}] += max(d.Slices, 1)
			}
		}
	}
	for i := range c.Fleet.Providers {
		one := &c.Fleet.Providers[i]
		kind, address := c.Fleet.KindOf(one)
		if c.Fleet.HostOf(one) != p.Host.Host || !kind.IsDevice() {
			continue
		}
		for consumer, amounts := range one.Held {
			for class, n := range amounts {
				if n -= reported[part{consumer, one.ID, class}]; n > 0 {
					devices[consumer] = append(devices[consumer], address+" "+string(class)+":"+Number(n))
				}
			}
		}
	}
	return devices
}

// bands adds the bars of the bandwidth of the host that no card shows, such as that of a bridge.
func (p *HostPage) bands(c *Cloud) {
	shown := map[string]bool{}
	p.eachCard(func(card *Card) {
		for _, bar := range card.Bands {
			shown[bar.Name] = true
		}
	})
	for i := range c.Fleet.Providers {
		one := &c.Fleet.Providers[i]
		if kind, _ := c.Fleet.KindOf(one); kind != hosttree.Bandwidth || c.Fleet.HostOf(one) != p.Host.Host {
			continue
		}
		for _, bar := range c.bandBars(one) {
			if !shown[bar.Name] {
				p.Bandwidth = append(p.Bandwidth, bar)
			}
		}
	}
	slices.SortFunc(p.Bandwidth, func(a, b BandBar) int { return cmp.Compare(a.Name, b.Name) })
}

// eachCard calls a function with each card of the page.
func (p *HostPage) eachCard(do func(*Card)) {
	var all func([]*Branch)
	all = func(list []*Branch) {
		for _, b := range list {
			if b.Card != nil {
				do(b.Card)
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
		do(c)
	}
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

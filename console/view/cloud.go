package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/resource"
)

// Source is what was read of a cloud.
type Source struct {
	Fleet      *fleet.View
	Reports    []host.Report       // of Berth's agents; nil where compute is Nova, or if the user may not read them
	Aggregates []compute.Aggregate // of hosts; nil if the user may not read them
}

// Cloud is what the console shows of a cloud at one time. It does not change.
type Cloud struct {
	Source
	Hosts   []*Host // by name
	Gaps    []fleet.Gap
	Taken   time.Time
	Classes []resource.Class // of devices, those with most units first
	Amounts []AmountClass    // those that a host has
	byName  map[string]*Host
	shared  map[resource.Class]Counts // of inventories that hosts share
}

// Mark is the state of a host that its row shows; empty: it is up, without conditions.
type Mark string

// The marks of hosts, the most urgent one first. They are the names of symbols.
const (
	Down      Mark = "wrong"  // declared dead, or its agent or its hypervisor fails
	Condition Mark = "attn"   // it has conditions
	Disabled  Mark = "off"    // an operator has disabled it
	Silent    Mark = "silent" // its agent has not reported for some time
)

// Text returns the word for a mark.
func (m Mark) Text() string {
	return map[Mark]string{Down: "down", Condition: "with conditions", Disabled: "disabled", Silent: "silent"}[m]
}

// marks lists all marks in the order in which they are counted.
var marks = []Mark{Down, Condition, Disabled, Silent}

// Host is a host of the cloud.
type Host struct {
	fleet.HostRow
	Aggregates []string
	Mark       Mark
	State      string                // in words
	Conditions []condition.Condition // of all sources, the worst first; those of HostRow are among them
	Cells      []Cell                // by class and address
	Amount     map[AmountClass]Amount
	Report     *host.Report // nil: none is known
	counts     map[resource.Class]Counts
	find       string // what a search looks at, in lower case
}

// newHost returns a host with the conditions of its row.
func newHost(row fleet.HostRow) *Host {
	return &Host{HostRow: row, Amount: map[AmountClass]Amount{}, Conditions: row.Conditions,
		counts: map[resource.Class]Counts{}}
}

// Offers reports whether servers are scheduled to the host.
func (h *Host) Offers() bool { return h.Mark != Down && h.Mark != Disabled && h.Mark != Silent }

// New returns what the console shows of a source.
func New(s Source) *Cloud {
	c := &Cloud{Source: s, Gaps: s.Fleet.Gaps, Taken: s.Fleet.Taken, byName: map[string]*Host{}}
	for _, row := range s.Fleet.Hosts() {
		h := newHost(row)
		c.Hosts = append(c.Hosts, h)
		c.byName[row.Host] = h
	}
	for i := range s.Reports {
		c.report(&s.Reports[i])
	}
	slices.SortFunc(c.Hosts, func(a, b *Host) int { return cmp.Compare(a.Host, b.Host) })
	c.aggregates()
	for _, h := range c.Hosts {
		h.setState()
	}
	c.addDevices()
	c.addAmounts()
	c.addClasses()
	c.index()
	return c
}

// Find returns the host with a name; nil: there is none.
func (c *Cloud) Find(name string) *Host { return c.byName[name] }

// report adds the report of an agent.
func (c *Cloud) report(r *host.Report) {
	h := c.byName[r.Host]
	if h == nil {
		h = newHost(fleet.HostRow{Host: r.Host})
		c.Hosts = append(c.Hosts, h)
		c.byName[r.Host] = h
	}
	h.Report = r
	h.Conditions = append(slices.Clone(r.Conditions), h.Conditions...)
}

// aggregates adds the host aggregates of compute to their hosts, which they name by their services.
func (c *Cloud) aggregates() {
	of := map[string][]string{} // by name of a host
	for _, a := range c.Aggregates {
		if a.AggregateContent == nil {
			continue
		}
		for _, name := range a.Hosts {
			of[name] = append(of[name], a.Name)
		}
	}
	for _, h := range c.Hosts {
		h.Aggregates = append(h.Aggregates, of[h.Host]...)
		if h.Service != h.Host && h.Service != "" {
			h.Aggregates = append(h.Aggregates, of[h.Service]...)
		}
	}
}

// isMarked reports whether a host with these conditions has a mark: it does not for those that end by themselves.
func isMarked(list []condition.Condition) bool {
	worst := condition.Worst(list)
	return worst != "" && worst != condition.Info
}

// setState sets the mark and the state of a host, and puts its worst conditions first.
func (h *Host) setState() {
	slices.Sort(h.Aggregates)
	h.Aggregates = slices.Compact(h.Aggregates)
	slices.SortStableFunc(h.Conditions, func(a, b condition.Condition) int { return b.Level.Compare(a.Level) })
	if r := h.Report; r != nil {
		h.State = r.StateText()
		switch {
		case r.Dead || r.StartFailed != "" || r.Down != "":
			h.Mark = Down
		case r.Silent():
			h.Mark = Silent
		case r.Disabled:
			h.Mark = Disabled
		case isMarked(h.Conditions):
			h.Mark = Condition
		}
		return
	}
	h.State = h.HostRow.State
	switch {
	case strings.HasPrefix(h.State, "down"):
		h.Mark = Down
	case strings.Contains(h.State, "disabled"):
		h.Mark = Disabled
	case isMarked(h.Conditions):
		h.Mark = Condition
	}
}

// index sets what a search looks at: names, addresses, classes, traits, projects, servers and conditions.
func (c *Cloud) index() {
	words := map[string]map[string]bool{}
	for _, h := range c.Hosts {
		words[h.Host] = map[string]bool{h.Host: true, h.Service: true, h.Zone: true, h.State: true, h.Mark.Text(): true}
		for _, text := range slices.Concat(condition.Texts(h.Conditions), h.Aggregates) {
			words[h.Host][text] = true
		}
		for _, cell := range h.Cells {
			words[h.Host][cell.Address], words[h.Host][string(cell.Class)] = true, true
		}
	}
	for i := range c.Fleet.Providers {
		p := &c.Fleet.Providers[i]
		of := words[c.Fleet.HostOf(p)]
		if of == nil {
			continue
		}
		for _, trait := range p.Traits {
			of[string(trait)] = true
		}
		for class := range p.Inventories {
			of[string(class)] = true
		}
		for consumer := range p.Held {
			holder := c.Fleet.Holder(consumer, 0)
			of[holder.Server], of[holder.Project], of[string(consumer)] = true, true, true
		}
	}
	for _, h := range c.Hosts {
		all := make([]string, 0, len(words[h.Host]))
		for word := range words[h.Host] {
			all = append(all, strings.ToLower(word))
		}
		slices.Sort(all)
		h.find = strings.Join(all, "\n")
	}
}

// has reports whether a host has all words of a search, which are in lower case.
func (h *Host) has(words []string) bool {
	for _, w := range words {
		if !strings.Contains(h.find, w) {
			return false
		}
	}
	return true
}

package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/resource"
)

// ServerSource is what was read of a server. What is nil was not read, for the reason in Missing.
type ServerSource struct {
	Server  compute.Server
	Why     *compute.Why // its decisions, of Berth's compute
	Actions []compute.InstanceAction
	Ports   []network.Port
	Now     *placement.Explanation // why its request has no candidates now; nil: it has a host
	Missing []string
}

// ServerPage is the view of one server.
type ServerPage struct {
	ServerSource
	Status   string
	Host     string
	Facts    []Fact
	Trail    []Step  // oldest first
	Points   []Point // of the time line; none if all steps are at one time
	Lasted   string  // from the first to the last step
	Failures []FilterRow
	Searched *time.Time  // when the search ended that Funnel is of; nil: Funnel is of the request as of now
	Funnel   []FunnelRow // of the last search, as recorded; else of the request as it would be searched for now
	Nearest  []Miss
	PortRows []PortRow
	// Allocation is what the server holds in Placement, as the cloud was read.
	Allocation []AllocationRow
	Opens      bool // a console of its guest can be requested
	Moves      bool // a move can be planned
	Waits      bool // a cold move has ended and must be confirmed or reverted
	Fault      []Segment
	Details    string
}

// Step is one entry of the history.
type Step struct {
	At    time.Time
	After string // the time since the first step
	Text  []Segment
	Times int
}

// Point is a point of the time line, in thousandths of its length.
type Point struct{ X int }

// FilterRow is what one filter refused in the last round.
type FilterRow struct {
	compute.WhyFilterFailure
	Text, Miss []Segment
	Others     int // hosts that are not named
}

// FunnelRow is one clause of the funnel.
type FunnelRow struct {
	Clause              string
	Left, Removed, Part int      // Part is the share of the hosts in percent
	Hosts               []string // some of those that it removed
	Others              int      // hosts that it removed and that are not named
}

// PortRow is a port of the server.
type PortRow struct {
	network.Port
	Addresses, Slot, Guarantee string
	Providers                  []string
}

// Server returns the view of a server. c is nil for a user who may not read the cloud.
func (c *Cloud) Server(s ServerSource) *ServerPage {
	p := &ServerPage{ServerSource: s, Status: s.Server.Status}
	if s.Server.Place != nil && s.Server.Hypervisor != nil {
		p.Host = *s.Server.Hypervisor
	}
	if s.Server.TaskState != nil && *s.Server.TaskState != "" {
		p.Status += ", " + *s.Server.TaskState
	}
	p.facts()
	if s.Server.Fault != nil {
		p.Fault, p.Details = c.Sentence(s.Server.Fault.Message), s.Server.Fault.Details
	}
	p.history(c)
	if s.Why != nil {
		for _, f := range s.Why.FilterFailures {
			p.Failures = append(p.Failures, FilterRow{f, c.Sentence(f.Reason), c.Sentence(f.Nearest),
				f.Count - len(f.Hosts)})
		}
	}
	p.funnel(c)
	p.Allocation = c.allocation(resource.ConsumerID(s.Server.ID))
	p.changes(c)
	for _, port := range s.Ports {
		p.PortRows = append(p.PortRows, c.portRow(port))
	}
	return p
}

// facts adds the facts below the title.
func (p *ServerPage) facts() {
	s := p.Server
	add := func(name, text string) {
		if text != "" {
			p.Facts = append(p.Facts, Fact{name, text})
		}
	}
	if f := s.Flavor.FlavorValues; f != nil {
		add("Flavor", fmt.Sprintf("%s: %s, %s MiB, %s GiB", f.Name, Plural(f.VCPUs, "vCPU"), Number(f.RAM), Number(f.Disk)))
	}
	if p.Why != nil {
		var devices []string
		for _, d := range p.Why.Devices {
			devices = append(devices, d.Address)
		}
		add("Devices", strings.Join(devices, ", "))
		for _, one := range p.Why.Constraints {
			add(one.Key, one.Value+", from "+strings.Join(one.Sources, " and "))
		}
	}
	var addresses []string
	for name, list := range s.Addresses {
		for _, a := range list {
			addresses = append(addresses, a.Address+" ("+name+")")
		}
	}
	slices.Sort(addresses)
	add("Addresses", strings.Join(addresses, ", "))
	add("Project", s.ProjectID)
	if !s.Created.IsZero() {
		add("Created", s.Created.UTC().Format("2006-01-02 15:04:05"))
	}
	add("Id", s.ID)
}

// actionTime is the form of the times of actions.
const actionTime = "2006-01-02T15:04:05.000000"

// history adds the steps of the decisions; without them the actions.
func (p *ServerPage) history(c *Cloud) {
	if p.Why != nil {
		for _, e := range p.Why.History {
			p.Trail = append(p.Trail, Step{At: e.At, Text: c.Sentence(e.Text), Times: e.Times})
		}
	} else {
		for _, a := range slices.Backward(p.Actions) {
			at, err := time.Parse(actionTime, a.Started)
			if err != nil {
				continue // an action without a time has no place in the history
			}
			text := a.Action + ", request " + a.Request
			if a.Message != nil && *a.Message != "" {
				text += ": " + *a.Message
			}
			p.Trail = append(p.Trail, Step{At: at, Text: c.Sentence(text), Times: 1})
		}
	}
	if len(p.Trail) == 0 {
		return
	}
	first, last := p.Trail[0].At, p.Trail[len(p.Trail)-1].At
	whole := last.Sub(first)
	for i := range p.Trail {
		after := p.Trail[i].At.Sub(first)
		p.Trail[i].After = "+" + duration(after)
		if whole > 0 {
			p.Points = append(p.Points, Point{min(max(int(after*1000/whole), 0), 1000)})
		}
	}
	p.Lasted = duration(whole)
}

// duration returns a duration in milliseconds, seconds or longer units.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// changes adds which changes of the server the page offers. c is nil for a user who may not read the cloud, and so may
// not move servers.
func (p *ServerPage) changes(c *Cloud) {
	idle := p.Server.TaskState == nil || *p.Server.TaskState == ""
	p.Opens = slices.Contains([]string{"ACTIVE", "PAUSED", "RESCUE", "VERIFY_RESIZE"}, p.Server.Status)
	p.Waits = p.Server.Status == "VERIFY_RESIZE" && idle
	p.Moves = c != nil && p.Why != nil && p.Host != "" && idle && !p.Waits
}

// funnel adds how many hosts each clause of the last search has left, and the hosts that lack the least: as recorded
// with the decision, else as of now.
func (p *ServerPage) funnel(c *Cloud) {
	if p.Why != nil && p.Why.Search != nil {
		p.recordedFunnel(c, *p.Why.Search)
		return
	}
	if p.Now == nil || p.Now.Reason == "" {
		return
	}
	p.Funnel = funnelRows(p.Now.Funnel)
	for _, n := range p.Now.Nearest {
		var deficits []compute.WhyDeficit
		for _, d := range n.Deficits {
			deficits = append(deficits, compute.WhyDeficit{Class: string(d.Class), Asks: d.Asks, Free: d.Free, Of: d.Of,
				Text: d.Text})
		}
		p.Nearest = append(p.Nearest, c.miss(n.Host, deficits))
	}
}

// recordedFunnel adds the funnel of a search as it was recorded.
func (p *ServerPage) recordedFunnel(c *Cloud, s compute.WhySearch) {
	var funnel []placement.ExplainFunnelRow
	for _, row := range s.Funnel {
		funnel = append(funnel, placement.ExplainFunnelRow(row))
	}
	p.Searched, p.Funnel = &s.At, funnelRows(funnel)
	for _, m := range s.Nearest {
		p.Nearest = append(p.Nearest, c.miss(m.Host, m.Deficits))
	}
}

// maxRemovedHosts is how many of the hosts that a clause removes are shown.
const maxRemovedHosts = 6

// funnelRows returns the rows of a funnel.
func funnelRows(funnel []placement.ExplainFunnelRow) (rows []FunnelRow) {
	for i, row := range funnel {
		one := FunnelRow{Clause: row.Clause, Left: row.Left, Part: Amount{row.Left, funnel[0].Left}.Share(),
			Hosts: row.Removed[:min(len(row.Removed), maxRemovedHosts)]}
		if i > 0 {
			one.Removed = funnel[i-1].Left - row.Left
		}
		one.Others = max(one.Removed-len(one.Hosts), 0)
		rows = append(rows, one)
	}
	return rows
}

// portRow returns the row of a port.
func (c *Cloud) portRow(port network.Port) PortRow {
	row := PortRow{Port: port}
	var addresses []string
	for _, ip := range port.FixedIPs {
		addresses = append(addresses, ip.Address)
	}
	row.Addresses = strings.Join(addresses, ", ")
	row.Slot, _ = port.Profile["pci_slot"].(string)
	if port.Request != nil {
		var groups []string
		for _, g := range port.Request.Groups {
			groups = append(groups, g.Resources.String())
		}
		row.Guarantee = strings.Join(groups, "; ")
	}
	for _, id := range port.Allocation() {
		row.Providers = append(row.Providers, c.named(id).Text)
	}
	slices.Sort(row.Providers)
	return row
}

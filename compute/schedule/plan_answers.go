package schedule

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// PlanAnswer is what PlanHosts needs of a plan of a server on a host.
type PlanAnswer struct {
	refusal  Refusal
	far      int // the sum of the ranks of the devices
	later    int // how much the devices are to be kept for others; see plan.Device
	unused   int // free devices that the server cannot use
	untraced bool
	work     int // of the search
}

// PlanMemory remembers the answers for hosts in one state, by question. It is safe for concurrent use.
type PlanMemory interface {
	Answer(question string) (PlanAnswer, bool)
	Keep(question string, answer PlanAnswer)
}

// WithMemory returns the host with a memory of plans for its PlanState. Most servers request what another one has
// requested before, most hosts have the same free as others, and only the host that the last server went to has changed
// since.
func (h Host) WithMemory(m PlanMemory) Host {
	h.memory = m
	return h
}

// PlanState describes what plans on the host depend on: its nodes, all devices, and which of these are free. Providers
// count only as far as devices share one.
func (h Host) PlanState() string {
	var b strings.Builder
	free := h.Free()
	room := h.Room(free, false)
	fmt.Fprintf(&b, "%v %#v %#v %v\n", h.InPlacement, room.Cells, room.Limits, room.Free)
	if h.machine == "" {
		h = h.WithMachine()
	}
	b.WriteString(h.machine)
	for _, d := range h.Devices {
		fmt.Fprintf(&b, "%v %t %t ", d.State, d.Spent, d.Disabled)
	}
	b.WriteByte('\n')
	for _, d := range free {
		b.WriteString(d.Address.String())
		b.WriteByte(' ')
	}
	return b.String()
}

// WithMachine returns the host with the part of its PlanState that only a new report of its agent changes. It takes
// most of the time of PlanState.
func (h Host) WithMachine() Host {
	var b strings.Builder
	fmt.Fprintf(&b, "%#v %v\n", h.Nodes, h.NodesInPlacement)
	providers := map[provider.ID]int{"": 0}
	for _, d := range h.Devices {
		if _, known := providers[d.Provider]; !known {
			providers[d.Provider] = len(providers)
		}
		parent, network := "", "none"
		if d.Parent != nil {
			parent = d.Parent.String()
		}
		if d.PhysicalNetwork != nil {
			network = *d.PhysicalNetwork
		}
		number := providers[d.Provider]
		d.Provider, d.Bandwidth, d.Parent, d.PhysicalNetwork = "", "", nil, nil
		d.State, d.Spent, d.Disabled, d.Gone, d.Holder, d.RequestID = "", false, false, false, "", ""
		d.Serial, d.PFMAC, d.Net, d.Driver = "", "", nil, ""
		fmt.Fprintf(&b, "%d %s %q %#v\n", number, parent, network, d)
	}
	h.machine = b.String()
	return h
}

// answer returns the answer of a host to a question, which describes the requests. A remembered answer has no work.
func (p Input) answer(h Host, requests []pci.Request, question string) PlanAnswer {
	question += fmt.Sprint("\n", p.work)
	if h.memory != nil {
		if known, is := h.memory.Answer(question); is {
			known.work = 0
			return known
		}
	}
	made, refusal := p.planOn(h, requests, nil, nil)
	out := PlanAnswer{refusal: refusal, far: made.Far, later: made.Later, unused: made.unused, untraced: made.untraced,
		work: made.work}
	if h.memory != nil {
		h.memory.Keep(question, out)
	}
	return out
}

// question returns a text that is the same for servers that request the same of a host.
func (p Input) question(requests []pci.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %v %+v %v", p.Pack, p.Isolate, numa.WithChoices(p.Cells, nil), nodesOf(p.Placed))
	for _, r := range requests {
		fmt.Fprintf(&b, "\n%v %d %q %q %+v %+v", p.Counted[r.ID], r.Count, r.Policy, r.Alias, r.Requirement, r.Alternatives)
		if r.Port != nil {
			port := *r.Port
			port.ID = ""
			fmt.Fprintf(&b, " %+v", port)
		}
		if r.Match != nil {
			fmt.Fprintf(&b, " match %+v", *r.Match)
		}
	}
	return b.String()
}

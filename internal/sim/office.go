package sim

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// office is compute: the records on its disk, and nothing else that a restart could lose.
type office struct {
	w       *World
	servers map[string]lifecycle.Server
	owners  map[string]string // consumer → server
	ids     bag               // of servers that are not deleted
	due     bag               // of those with steps
	groups  map[string][]string
}

// want is a guest that shall be on a host: an entry of its assignments.
type want struct {
	id, was  string
	requests []pci.Request
	parts    []numa.Part
	off      bool
	build    int
	incoming bool
	outgoing string
	key      string // another one when anything of it is another
}

// store writes a record, and what follows from it.
func (o *office) store(before, now lifecycle.Server) {
	if len(now.Trail) > 8 {
		now.Trail = now.Trail[len(now.Trail)-4:]
	}
	o.servers[now.ID] = now
	o.owners[now.ID] = now.ID
	if now.Migration != nil {
		o.owners[now.Migration.ID] = now.ID
	}
	if o.due.drop(now.ID); len(now.Steps()) > 0 {
		o.due.add(now.ID)
	}
	if o.ids.add(now.ID); now.State == lifecycle.Deleted {
		o.ids.drop(now.ID)
		delete(o.servers, now.ID)
	}
	for _, s := range before.Stays() {
		if m := o.w.byName[s.Host]; m != nil {
			delete(m.servers, now.ID)
		}
	}
	hosts := map[string]string{}
	for _, e := range before.Entries() {
		hosts[e.Host] += "-" + key(before, e)
	}
	for _, e := range now.Entries() {
		hosts[e.Host] += "+" + key(now, e)
	}
	for _, s := range now.Stays() {
		if m := o.w.byName[s.Host]; m != nil && now.State != lifecycle.Deleted {
			m.servers[now.ID] = true
		}
	}
	for host, change := range hosts {
		if was, is, ok := strings.Cut(change, "+"); !ok || was != "-"+is {
			o.w.byName[host].rev++
			o.w.byName[host].stir()
		}
	}
	o.w.mind(now)
}

// key says all that an entry says.
func key(s lifecycle.Server, e lifecycle.Entry) string {
	var b strings.Builder
	b.WriteString(e.Consumer + " " + e.Was + " " + string(e.Power) + " " + e.Outgoing)
	for _, from := range slices.Sorted(maps.Keys(e.There)) {
		b.WriteString(" " + from + ">" + e.There[from])
	}
	b.WriteByte(byte('0' + s.Builds%10))
	if e.Incoming {
		b.WriteString(" in")
	}
	for _, r := range e.Requests {
		b.WriteString(" " + r.ID)
		for _, p := range r.Providers {
			b.WriteString(" " + string(p))
		}
	}
	return b.String()
}

// lines is what compute wants on a host now.
func (o *office) lines(m *machine) []want {
	if m.drawn == m.rev {
		return m.line
	}
	m.line = nil
	for _, id := range slices.Sorted(maps.Keys(m.servers)) {
		s := o.servers[id]
		for _, e := range s.Entries() {
			if e.Host != m.name {
				continue
			}
			m.line = append(m.line, want{id: e.Consumer, was: e.Was, requests: e.Requests, parts: e.Topology,
				off: e.Power == lifecycle.Off, build: s.Builds, incoming: e.Incoming, outgoing: e.Outgoing, key: key(s, e)})
		}
	}
	m.drawn = m.rev
	return m.line
}

// tell gives a server an event.
func (o *office) tell(id string, e lifecycle.Event) lifecycle.Server {
	before, known := o.servers[id]
	if !known {
		return lifecycle.Server{}
	}
	now, _ := lifecycle.Next(before, e, o.w.now)
	o.store(before, now)
	o.w.heard(before, e, now)
	return now
}

// guest takes in what an agent tells of a guest that it knows by this id. False: it is not wanted there, build nothing.
func (o *office) guest(id string, e lifecycle.Told) bool {
	heard := lifecycle.Event(e)
	if o.w.broken == Uncounted {
		heard = e.Of
	}
	s := o.tell(o.owners[id], heard)
	claimed, asks := e.Of.(lifecycle.GuestClaimed)
	return !asks || s.ID != "" && s.Expects(id, claimed.Host)
}

// perform does the first step that is due for a server. The answer may be lost: then it is done again.
func (o *office) perform(id string) {
	s := o.servers[id]
	steps := s.Steps()
	if len(steps) == 0 {
		return
	}
	e := o.do(s, steps[0])
	if e == nil {
		o.tell(id, lifecycle.Stumbled{Step: steps[0], Reason: "not now"})
		return
	}
	if o.w.chance(Answers, 15) {
		return
	}
	o.tell(id, e)
}

// do does one step; nil is to be tried again.
func (o *office) do(s lifecycle.Server, step lifecycle.Step) lifecycle.Event {
	l := o.w.ledger
	switch step {
	case lifecycle.Schedule:
		return o.schedule(s)
	case lifecycle.Claim:
		return o.claim(s)
	case lifecycle.Muster:
		return o.muster(s)
	case lifecycle.Release:
		if o.w.broken != Orphans {
			l.drop(resource.ConsumerID(s.ID))
		}
		return lifecycle.Released{}
	case lifecycle.Drop:
		left, _ := s.Dropping()
		l.drop(resource.ConsumerID(left.Consumer))
		return lifecycle.Dropped{Consumer: left.Consumer}
	case lifecycle.Rekey:
		done, err := o.hand(s.ID, s.Move.As)
		if err != nil || !done {
			o.w.report.Happened["move refused"]++
			return lifecycle.Refused{Step: step, Reason: fmt.Sprint(err)}
		}
		return lifecycle.Rekeyed{}
	case lifecycle.Restore:
		if _, err := o.hand(s.Move.From.Consumer, s.ID); err != nil {
			return lifecycle.Stumbled{Step: step, Reason: fmt.Sprint(err), Refused: true}
		}
		return lifecycle.Restored{}
	}
	return nil
}

// hand gives all that one consumer holds to another.
func (o *office) hand(from, to string) (done bool, err error) {
	giver, taker := o.w.ledger.consumers[resource.ConsumerID(from)], o.w.ledger.consumers[resource.ConsumerID(to)]
	if len(giver.holds) == 0 {
		return len(taker.holds) > 0, nil
	}
	claims := map[resource.ConsumerID]claim{
		resource.ConsumerID(from): {nil, giver.generation}, resource.ConsumerID(to): {giver.holds, taker.generation}}
	if err = o.w.ledger.put(claims); err != nil {
		err = o.handInRoom(claims, giver.holds)
	}
	return err == nil, err
}

// handInRoom makes room in the same step where what is held stands on what is reserved, and takes it away again, unless compute ends in
// between.
func (o *office) handInRoom(claims map[resource.ConsumerID]claim, moves resource.Allocation) error {
	l := o.w.ledger
	wide, before, generations := map[provider.ID]map[resource.Class]resource.Inventory{}, map[provider.ID]map[resource.Class]resource.Inventory{}, map[provider.ID]int{}
	for _, id := range slices.Sorted(maps.Keys(moves)) {
		next := maps.Clone(l.providers[id].Inventories)
		for class, amount := range moves[id] {
			if inv, has := next[class]; has {
				next[class] = inv.Widened(l.used(id)[class], amount)
			}
		}
		if !maps.Equal(next, l.providers[id].Inventories) {
			wide[id], before[id], generations[id] = next, l.providers[id].Inventories, l.providers[id].Generation
		}
	}
	if err := l.reshape(wide, generations, claims); err != nil {
		return err
	}
	o.w.report.Happened["room made"]++
	for _, id := range slices.Sorted(maps.Keys(wide)) {
		if o.w.chance(Answers, 4) {
			return nil // the agents take it away
		}
		if _, err := l.putInventories(id, l.providers[id].Generation, before[id]); err != nil {
			return err
		}
	}
	return nil
}

// claim writes the first choice as the server's allocation. It looks first: it may be there already.
func (o *office) claim(s lifecycle.Server) lifecycle.Event {
	choice, c := s.Choices[0], resource.ConsumerID(s.ID)
	held := o.w.ledger.consumers[c]
	if len(held.holds) > 0 && held.holds.Equal(choice.Allocation) {
		return lifecycle.Claimed{Try: s.Try}
	}
	if err := o.w.ledger.put(map[resource.ConsumerID]claim{c: {choice.Allocation, held.generation}}); err != nil {
		if len(held.holds) > 0 {
			o.w.ledger.drop(c)
		}
		o.w.report.Happened["claim lost"]++
		return lifecycle.ClaimLost{Try: s.Try, Reason: fault.TextOf(err)}
	}
	return lifecycle.Claimed{Try: s.Try}
}

// enough is how many candidates are asked for.
const enough = 24

// schedule asks Placement and chooses.
func (o *office) schedule(s lifecycle.Server) lifecycle.Event {
	ask := s.Ask
	ask.Limit = enough
	p := schedule.Picture{Hosts: map[provider.ID]schedule.Host{}, Now: o.w.now, Silence: schedule.Silence, Excluded: s.Excluded, Parts: s.Topology,
		Barred: s.Bars()}
	if s.Move != nil {
		if p.Only = s.Move.To; p.Only != "" {
			ask.Groups = slices.Clone(ask.Groups)
			ask.Groups[0].InTree = o.w.byName[p.Only].root
		}
	}
	for c := range candidate.Find(o.w.ledger.see(), ask, candidate.Options{BreadthFirst: true}) {
		p.Candidates = append(p.Candidates, schedule.Candidate{Root: c.Root, Allocation: c.Allocation(), Mappings: c.Mappings()})
		m := o.w.byRoot[c.Root]
		if _, known := p.Hosts[c.Root]; !known && m.known {
			p.Hosts[c.Root] = o.host(m)
		}
		if m.dead {
			p.Barred[m.name] = "an operator says that it is dead"
		}
	}
	choices, refusals := schedule.Choose(p, s.Requests, seed(s))
	if len(choices) == 0 {
		return lifecycle.NothingFits{Candidates: len(p.Candidates), Reason: schedule.Summarise(refusals), Again: len(p.Candidates) > 0}
	}
	return lifecycle.Chosen{Choices: choices, Candidates: len(p.Candidates)}
}

// host is what compute knows of a host, with the servers that it has placed there.
func (o *office) host(m *machine) schedule.Host {
	h := m.report
	h.Seen = m.seen
	if m.agent != nil && !m.cut {
		h.Seen = o.w.now
	}
	for _, id := range slices.Sorted(maps.Keys(m.servers)) {
		s := o.servers[id]
		for _, stay := range s.Stays() {
			if stay.Host == m.name && len(stay.Requests)+len(stay.Topology) > 0 {
				h.Guests = append(h.Guests, schedule.Guest{ID: stay.Consumer, Requests: stay.Requests, Devices: stay.Devices,
					Parts: stay.Topology, Placed: stay.Cells})
			}
		}
	}
	return h
}

// silent says whether nobody on a host would answer.
func (w *World) silent(host string) bool {
	m := w.byName[host]
	if m == nil || m.dead {
		return true
	}
	return (m.agent == nil || m.cut) && w.now.Sub(m.seen) >= schedule.Silence
}

func seed(s lifecycle.Server) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", s.ID, s.Round)
	return h.Sum64()
}

// muster looks how the other servers of the request fare.
func (o *office) muster(s lifecycle.Server) lifecycle.Event {
	placed, trying, together := 0, 0, false
	for _, id := range o.groups[group(s.ID)] {
		other := o.servers[id]
		switch other.State {
		case lifecycle.Scheduling, lifecycle.Claiming, lifecycle.Retreating:
			trying++
		case lifecycle.Mustering:
			placed++
		}
		together = together || other.Together
	}
	switch {
	case placed >= s.Least || together:
		return lifecycle.Mustered{}
	case placed+trying < s.Least:
		return lifecycle.MusterFailed{Reason: "too few have a place"}
	}
	return nil
}

func group(id string) string {
	g, _, _ := strings.Cut(id, ".")
	return g
}

// bury tells the servers on dead hosts.
func (o *office) bury(m *machine) {
	for _, id := range slices.Sorted(maps.Keys(m.servers)) {
		o.tell(id, lifecycle.HostDead{Host: m.name})
	}
}

// bag is a set from which one can be drawn by chance.
type bag struct {
	list []string
	at   map[string]int
}

func (b *bag) add(s string) {
	if _, in := b.at[s]; in {
		return
	}
	if b.at == nil {
		b.at = map[string]int{}
	}
	b.at[s] = len(b.list)
	b.list = append(b.list, s)
}

func (b *bag) drop(s string) {
	i, in := b.at[s]
	if !in {
		return
	}
	last := b.list[len(b.list)-1]
	b.list[i], b.at[last] = last, i
	b.list = b.list[:len(b.list)-1]
	delete(b.at, s)
}

// beginning is when the simulation's time begins; each operation takes a second.
func beginning() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

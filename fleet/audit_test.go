package fleet

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// world is a cloud without differences, into which damage is written.
type world struct {
	*Snapshot
	random  *rand.Rand
	touched map[string]bool // servers and hosts that have been damaged
	hosts   int
	next    int
}

func (w *world) id(kind string) string {
	w.next++
	return fmt.Sprintf("%s-%06d", kind, w.next)
}

// hold gives a consumer an allocation of a part of a host.
func (w *world) hold(consumer string, host, part int, amounts resource.Amounts) {
	w.Providers[3*host+part].Held[resource.ConsumerID(consumer)] = amounts
}

// rp returns the id of a provider of a host: 0 is the host, 1 its GPU and 2 its NIC.
func rp(host, part int) string {
	if part == 2 {
		return string(nicOf(host).ID())
	}
	return fmt.Sprintf("rp-%d-%d", host, part)
}

// nicOf returns the name of the provider of the NIC of a host.
func nicOf(host int) bandwidth.Name {
	return bandwidth.Name{Hypervisor: fmt.Sprintf("cmp%d", host), Agent: bandwidth.NICSwitch, Device: "ens1"}
}

var generation = 7

// newWorld returns a cloud with hosts and ten servers on each: plain ones, one with a GPU and one with a port.
func newWorld(hosts int, seed uint64) *world {
	w := &world{Snapshot: &Snapshot{Taken: time.Unix(1, 0), Consumers: map[resource.ConsumerID]Consumer{}},
		random: rand.New(rand.NewPCG(seed, 1)), touched: map[string]bool{}, hosts: hosts}
	for h := range hosts {
		name := fmt.Sprintf("cmp%d", h)
		root := node(rp(h, 0), name, "")
		gpu := node(rp(h, 1), name+"_0000:81:00.0", rp(h, 0))
		gpu.Inventories["CUSTOM_GPU"] = resource.Whole(100)
		for class, n := range map[resource.Class]int{"VCPU": 1000, "MEMORY_MB": 1 << 20, "DISK_GB": 10000} {
			root.Inventories[class] = resource.Whole(n)
		}
		nic := node(rp(h, 2), nicOf(h).String(), rp(h, 0))
		nic.Inventories[bandwidth.EgressBandwidth] = resource.Whole(100000)
		for _, p := range []Provider{root, gpu, nic} {
			p.Held, p.Generation = map[resource.ConsumerID]resource.Amounts{}, generation
			w.Providers = append(w.Providers, p)
		}
		w.Hypervisors = append(w.Hypervisors, Hypervisor{root.ID, name, name})
		w.Services = append(w.Services, Service{Host: name, State: "up"})
		w.Agents = append(w.Agents, NetworkAgent{name, string(bandwidth.NICSwitch)})
		for n := range 10 {
			w.server(h, n)
		}
	}
	return w
}

// server adds a server to a host: the ninth has a GPU, the tenth a port with a guarantee, and some are in a move.
func (w *world) server(h, n int) {
	s := Server{ID: fmt.Sprintf("srv-%d-%d", h, n), Name: fmt.Sprintf("s%d-%d", h, n), Project: "p", User: "u",
		Status: "ACTIVE", VMState: "active", Host: fmt.Sprintf("cmp%d", h), Node: fmt.Sprintf("cmp%d", h),
		Flavor: Flavor{Name: "f", VCPUs: 1 + n%3, MemoryMB: 512, DiskGB: n % 2}}
	amounts := resource.Amounts{"VCPU": 1 + n%3, "MEMORY_MB": 512}
	if n%2 == 1 {
		amounts["DISK_GB"] = 1
	}
	switch n {
	case 7: // a resize that waits for its confirmation: the migration holds the source
		m := Migration{UUID: "mig-" + s.ID, Server: s.ID, Kind: "resize", Status: "finished",
			SourceNode: fmt.Sprintf("cmp%d", (h+1)%w.hosts), DestNode: s.Node}
		if h == w.hosts-1 {
			break
		}
		w.Migrations = append(w.Migrations, m)
	case 8:
		s.Flavor.ExtraSpecs = map[string]string{"pci_passthrough:alias": "gpu:1"}
		w.hold(s.ID, h, 1, resource.Amounts{"CUSTOM_GPU": 1})
	case 9:
		w.Ports = append(w.Ports, Port{ID: "port-" + s.ID, Server: s.ID, Host: s.Host,
			Requests:  []resource.Amounts{{bandwidth.EgressBandwidth: 1000}},
			Providers: []provider.ID{provider.ID(rp(h, 2))}})
		w.hold(s.ID, h, 2, resource.Amounts{bandwidth.EgressBandwidth: 1000})
	}
	w.Servers = append(w.Servers, s)
	w.hold(s.ID, h, 0, amounts)
	w.Consumers[resource.ConsumerID(s.ID)] = Consumer{Generation: &generation, Project: "p", User: "u"}
}

// finishMoves lets the migrations hold their sources, when all providers exist.
func (w *world) finishMoves() {
	for _, m := range w.Migrations {
		var source int
		if _, err := fmt.Sscanf(m.SourceNode, "cmp%d", &source); err == nil {
			w.hold(m.UUID, source, 0, resource.Amounts{"VCPU": 1, "MEMORY_MB": 256})
		}
	}
}

// clone returns a copy of a snapshot in which allocations and inventories can be changed.
func clone(s *Snapshot) *Snapshot {
	out := *s
	out.Providers = slices.Clone(s.Providers)
	for i := range out.Providers {
		p := &out.Providers[i]
		p.Inventories, p.Held = maps.Clone(p.Inventories), maps.Clone(p.Held)
	}
	out.Consumers = maps.Clone(s.Consumers)
	return &out
}

// pick returns a server of kind n that has not been damaged yet, with its host.
func (w *world) pick(n int) (s *Server, host int) {
	for {
		host = w.random.IntN(w.hosts - 1)
		key := fmt.Sprintf("srv-%d-%d", host, n)
		if w.touched[key] || w.touched[fmt.Sprint("host", host)] {
			continue
		}
		w.touched[key] = true
		return &w.Servers[host*10+n], host
	}
}

// lonely returns a host that has no other damage, and lets no other damage be written to it.
func (w *world) lonely() int {
	for {
		host := w.random.IntN(w.hosts - 1)
		busy := w.touched[fmt.Sprint("host", host)]
		for n := range 10 {
			busy = busy || w.touched[fmt.Sprintf("srv-%d-%d", host, n)]
		}
		if !busy {
			w.touched[fmt.Sprint("host", host)] = true
			return host
		}
	}
}

// lost adds a consumer without a server.
func (w *world) lost(kind string) string {
	id := w.id(kind)
	w.Consumers[resource.ConsumerID(id)] = Consumer{Generation: &generation, Project: "p", User: "u"}
	return id
}

// expected is what an audit must find of one damage: its rule and subject, and whether it is healed.
type expected struct {
	rule    Rule
	subject string
	heals   bool
}

// at returns the allocation of a server at a part of its host, to change it.
func (w *world) held(s *Server, host, part int) resource.Amounts {
	p := &w.Providers[3*host+part]
	amounts := maps.Clone(p.Held[resource.ConsumerID(s.ID)])
	if amounts == nil {
		amounts = resource.Amounts{}
	}
	p.Held[resource.ConsumerID(s.ID)] = amounts
	return amounts
}

// drop removes the allocation of a server at a part of its host.
func (w *world) drop(s *Server, host, part int) {
	delete(w.Providers[3*host+part].Held, resource.ConsumerID(s.ID))
}

// resize adds n of a class to what a server has at a part of its host.
func resize(server, part int, class resource.Class, n int, rule Rule) func(*world) expected {
	return func(w *world) expected {
		s, h := w.pick(server)
		amounts := w.held(s, h, part)
		if amounts[class] += n; amounts[class] == 0 {
			delete(amounts, class)
		}
		if len(amounts) == 0 {
			w.drop(s, h, part)
		}
		return expected{rule, s.ID, true}
	}
}

// orphan adds a consumer without a server at a part of a host.
func orphan(part int, amounts resource.Amounts) func(*world) expected {
	return func(w *world) expected {
		id := w.lost("orphan")
		_, h := w.pick(5)
		w.hold(id, h, part, maps.Clone(amounts))
		return expected{Orphaned, id, true}
	}
}

// ended adds a migration that has ended and holds something of a host.
func endedMove(status string) func(*world) expected {
	return func(w *world) expected {
		s, h := w.pick(4)
		id := w.lost("ended")
		w.Migrations = append(w.Migrations, Migration{UUID: id, Server: s.ID, Kind: "migration", Status: status})
		w.hold(id, h, 0, resource.Amounts{"VCPU": 1})
		return expected{EndedMove, id, true}
	}
}

// second gives a server something at a part of another host.
func second(server, part int, amounts resource.Amounts) func(*world) expected {
	return func(w *world) expected {
		s, _ := w.pick(server)
		w.hold(s.ID, w.hosts-1, part, maps.Clone(amounts))
		return expected{SecondHost, s.ID, true}
	}
}

// offline takes a server off its host without releasing its allocation.
func offline(state string) func(*world) expected {
	return func(w *world) expected {
		s, _ := w.pick(3)
		s.Host, s.Node, s.VMState, s.Status = "", "", state, "SHELVED_OFFLOADED"
		return expected{WithoutHost, s.ID, true}
	}
}

// damages are forty ways to damage a cloud. testdata/damages.txt has their names: the test of internal/nova writes them
// into a cloud of Nova.
var damages = map[string]func(*world) expected{
	"orphan of CPUs":          orphan(0, resource.Amounts{"VCPU": 2}),
	"orphan of memory":        orphan(0, resource.Amounts{"MEMORY_MB": 512}),
	"orphan of disk":          orphan(0, resource.Amounts{"DISK_GB": 3}),
	"orphan of all":           orphan(0, resource.Amounts{"VCPU": 1, "MEMORY_MB": 1, "DISK_GB": 1}),
	"orphan of a GPU":         orphan(1, resource.Amounts{"CUSTOM_GPU": 1}),
	"orphan of bandwidth":     orphan(2, resource.Amounts{bandwidth.EgressBandwidth: 5}),
	"confirmed migration":     endedMove("confirmed"),
	"reverted migration":      endedMove("reverted"),
	"failed migration":        endedMove("error"),
	"completed migration":     endedMove("completed"),
	"cancelled migration":     endedMove("cancelled"),
	"fewer CPUs":              resize(2, 0, "VCPU", -1, TooLittle),
	"no CPUs":                 resize(0, 0, "VCPU", -1, TooLittle),
	"less memory":             resize(2, 0, "MEMORY_MB", -256, TooLittle),
	"no disk":                 resize(1, 0, "DISK_GB", -1, TooLittle),
	"more CPUs":               resize(2, 0, "VCPU", 5, TooMuch),
	"more memory":             resize(0, 0, "MEMORY_MB", 1, TooMuch),
	"more disk":               resize(1, 0, "DISK_GB", 9, TooMuch),
	"disk that is unwanted":   resize(0, 0, "DISK_GB", 1, TooMuch),
	"another GPU":             resize(8, 1, "CUSTOM_GPU", 1, TooMuch),
	"GPU of a plain server":   resize(6, 1, "CUSTOM_GPU", 1, TooMuch),
	"less bandwidth":          resize(9, 2, bandwidth.EgressBandwidth, -500, PortAmounts),
	"more bandwidth":          resize(9, 2, bandwidth.EgressBandwidth, 500, PortAmounts),
	"bandwidth without port":  resize(6, 2, bandwidth.EgressBandwidth, 500, PortAmounts),
	"second host, CPUs":       second(0, 0, resource.Amounts{"VCPU": 1}),
	"second host, all":        second(1, 0, resource.Amounts{"VCPU": 1, "MEMORY_MB": 2}),
	"second host, GPU":        second(8, 1, resource.Amounts{"CUSTOM_GPU": 1}),
	"second host, bandwidth":  second(9, 2, resource.Amounts{bandwidth.EgressBandwidth: 10}),
	"shelved with allocation": offline("shelved_offloaded"),
	"failed with allocation":  offline("error"),
	"no allocation": func(w *world) expected {
		s, h := w.pick(0)
		w.drop(s, h, 0)
		delete(w.Consumers, resource.ConsumerID(s.ID))
		return expected{NoAllocation, s.ID, true}
	},
	"no allocation, with a port": func(w *world) expected {
		s, h := w.pick(9)
		w.drop(s, h, 0)
		w.drop(s, h, 2)
		delete(w.Consumers, resource.ConsumerID(s.ID))
		return expected{NoAllocation, s.ID, true}
	},
	"wrong host": func(w *world) expected {
		s, h := w.pick(2)
		w.hold(s.ID, w.hosts-1, 0, w.held(s, h, 0))
		w.drop(s, h, 0)
		return expected{WrongHost, s.ID, true}
	},
	"doubled": func(w *world) expected {
		s, h := w.pick(2)
		for class, n := range w.held(s, h, 0) {
			w.held(s, h, 0)[class] = 2 * n
		}
		return expected{Doubled, s.ID, true}
	},
	"no bandwidth": func(w *world) expected {
		s, h := w.pick(9)
		w.drop(s, h, 2)
		return expected{PortAmounts, s.ID, true}
	},
	"no GPU": func(w *world) expected { // which one is not known
		s, h := w.pick(8)
		w.drop(s, h, 1)
		return expected{TooLittle, s.ID, false}
	},
	"agent is gone": func(w *world) expected {
		h := w.lonely()
		w.Agents[h].Type = "gone"
		delete(w.Providers[3*h+2].Held, resource.ConsumerID(fmt.Sprintf("srv-%d-9", h)))
		w.Ports[h].Requests, w.Ports[h].Providers = nil, nil
		return expected{OwnerGone, rp(h, 2), true}
	},
	"no hypervisor's provider": func(w *world) expected {
		id := w.id("hypervisor")
		w.Hypervisors = append(w.Hypervisors, Hypervisor{provider.ID(id), id, id})
		return expected{NoProvider, id, false}
	},
	"provider without service": func(w *world) expected {
		id := w.id("left")
		p := node(id, id, "", "VCPU")
		w.Providers = append(w.Providers, p)
		return expected{NoService, id, true}
	},
	"over capacity": func(w *world) expected {
		h := w.lonely()
		w.Providers[3*h].Inventories["VCPU"] = resource.Whole(3)
		return expected{Overcommitted, rp(h, 0), false}
	},
	"device twice": func(w *world) expected {
		s, h := w.pick(5)
		for _, of := range []*Server{s, &w.Servers[h*10+6]} {
			w.Ports = append(w.Ports, Port{ID: w.id("port"), Server: of.ID, Host: of.Host, Device: "0000:3b:00.1"})
		}
		return expected{DeviceTwice, w.Ports[len(w.Ports)-1].ID, false}
	},
	"port of another provider": func(w *world) expected {
		_, h := w.pick(9)
		w.Ports[h].Providers = []provider.ID{provider.ID(rp(h, 1))}
		return expected{PortProvider, w.Ports[h].ID, false}
	},
	"lost port": func(w *world) expected {
		id := w.id("port")
		w.Ports = append(w.Ports, Port{ID: id, Server: "lost"})
		return expected{LostPort, id, false}
	},
}

// options returns the options of audits of a world.
func options(t *testing.T) AuditOptions {
	aliases, err := pci.ParseAliases(true, `{"name": "gpu", "resource_class": "CUSTOM_GPU"}`)
	if err != nil {
		t.Fatal(err)
	}
	return AuditOptions{Aliases: aliases, AliasesKnown: true}
}

// apply performs changes on a snapshot as Placement does. Each must find what it was planned for.
func apply(t *testing.T, s *Snapshot, plan []Change) {
	t.Helper()
	at, held := map[provider.ID]int{}, NewView(s).Held
	for i, p := range s.Providers {
		at[p.ID] = i
	}
	for _, c := range plan {
		if a := c.Allocation; a != nil {
			if !held[a.Consumer].Equal(a.Before) {
				t.Fatalf("%s has %v, not %v", a.Consumer, held[a.Consumer], a.Before)
			}
			for id := range a.Before {
				delete(s.Providers[at[id]].Held, a.Consumer)
			}
			for id, amounts := range a.After {
				s.Providers[at[id]].Held[a.Consumer] = amounts
			}
			continue
		}
		p := &s.Providers[at[c.Provider.Provider.ID]]
		if len(p.Held) > 0 {
			t.Fatalf("%s is emptied while it is used", p.Name)
		}
		if p.Inventories = nil; c.Provider.Restore {
			p.Inventories = c.Provider.Provider.Inventories
		}
	}
}

// TestEveryDamageIsFound writes 500 differences of forty kinds into a cloud with 10,000 servers. The audit finds each,
// and nothing else; what it heals is right afterwards, and the inverse of each change restores the damage.
func TestEveryDamageIsFound(t *testing.T) {
	hosts, count := 1000, 500
	if testing.Short() {
		hosts, count = 300, 120
	}
	listed, err := os.ReadFile("testdata/damages.txt")
	names := slices.Sorted(maps.Keys(damages))
	if err != nil || len(names) < 40 || string(listed) != strings.Join(names, "\n")+"\n" {
		t.Fatalf("testdata/damages.txt lists others than the %d kinds: %v\n%s", len(names), err, strings.Join(names, "\n"))
	}
	w := newWorld(hosts, 1)
	w.finishMoves()
	if found := NewView(w.Snapshot).Audit(options(t)); len(found) > 0 {
		t.Fatalf("a cloud without differences has %d: %+v", len(found), found[0])
	}
	want := map[[2]string]expected{}
	for i := range count {
		e := damages[names[i%len(names)]](w)
		want[[2]string{string(e.rule), e.subject}] = e
	}
	before := clone(w.Snapshot)
	began := time.Now()
	found := NewView(before).Audit(options(t))
	t.Logf("%d servers, %d differences: audited in %s", len(w.Servers), len(want), time.Since(began))
	for _, f := range found {
		e, known := want[[2]string{string(f.Rule), f.Subject}]
		if !known || e.heals != (f.Change != nil) || (f.Change == nil) == (f.Kept == "") {
			t.Errorf("invented or not healed as expected: %+v", f)
		}
		delete(want, [2]string{string(f.Rule), f.Subject})
	}
	for key, e := range want {
		t.Errorf("not found: %v %+v", key, e)
	}
	same := Same(found, NewView(clone(before)).Audit(options(t)))
	if len(same) != len(found) {
		t.Fatalf("%d of %d are the same in both looks", len(same), len(found))
	}
	healed, plan := clone(before), Plan(same)
	apply(t, healed, plan)
	for _, f := range NewView(healed).Audit(options(t)) {
		if f.Change != nil && f.Rule != NoService { // apply deletes no provider
			t.Errorf("still wrong: %+v", f)
		}
	}
	apply(t, healed, Undo(plan))
	for i, p := range healed.Providers {
		want := before.Providers[i]
		if !maps.EqualFunc(p.Held, want.Held, func(a, b resource.Amounts) bool { return maps.Equal(a, b) }) ||
			!maps.Equal(p.Inventories, want.Inventories) {
			t.Errorf("not undone: %s has %v %v, had %v %v", p.Name, p.Held, p.Inventories, want.Held, want.Inventories)
		}
	}
}

// What differs in the second look, or has changed since the first one, is not healed.
func TestOnlyTheSameIsHealed(t *testing.T) {
	w := newWorld(3, 1)
	w.finishMoves()
	e := orphan(0, resource.Amounts{"VCPU": 2})(w)
	first := NewView(w.Snapshot).Audit(options(t))
	for what, change := range map[string]func(*Snapshot){
		"gone": func(s *Snapshot) {
			for i := range s.Providers {
				delete(s.Providers[i].Held, resource.ConsumerID(e.subject))
			}
		},
		"other amounts": func(s *Snapshot) {
			for i := range s.Providers {
				if p := &s.Providers[i]; p.Held[resource.ConsumerID(e.subject)] != nil {
					p.Held[resource.ConsumerID(e.subject)] = resource.Amounts{"VCPU": 3}
				}
			}
		},
		"written again": func(s *Snapshot) {
			other := 8
			s.Consumers[resource.ConsumerID(e.subject)] = Consumer{Generation: &other}
		},
	} {
		second := clone(w.Snapshot)
		change(second)
		if same := Same(first, NewView(second).Audit(options(t))); len(same) != 0 {
			t.Errorf("%s: %+v", what, same)
		}
	}
	if same := Same(first, NewView(clone(w.Snapshot)).Audit(options(t))); len(same) != 1 || same[0].Subject != e.subject {
		t.Errorf("%+v", same)
	}
}

// A difference that something in progress or an unread part may explain is not reported.
func TestExplainedDifferences(t *testing.T) {
	for what, explain := range map[string]func(*world, *Server){
		"task":         func(_ *world, s *Server) { s.TaskState = "migrating" },
		"building":     func(_ *world, s *Server) { s.VMState = "building" },
		"unknown cell": func(_ *world, s *Server) { s.Status = "UNKNOWN" },
		"resize": func(w *world, s *Server) {
			w.Migrations = append(w.Migrations, Migration{UUID: "m", Server: s.ID, Status: "migrating", Kind: "resize",
				SourceNode: s.Node, DestNode: "cmp1"})
		},
		"evacuation": func(w *world, s *Server) { // holds both hosts until the source runs again
			w.Migrations = append(w.Migrations, Migration{UUID: "m", Server: s.ID, Status: "done", Kind: "evacuation",
				SourceNode: "cmp1", DestNode: s.Node})
		},
		"providers":  func(w *world, _ *Server) { w.Gaps = append(w.Gaps, Gap{Part: Providers}) },
		"migrations": func(w *world, _ *Server) { w.Gaps = append(w.Gaps, Gap{Part: Migrations}) },
		"flavor":     func(_ *world, s *Server) { s.FlavorUnknown = true },
		"profile":    func(_ *world, s *Server) { s.Flavor.ExtraSpecs = map[string]string{"accel:device_profile": "x"} },
	} {
		w := newWorld(3, 1)
		w.finishMoves()
		s := &w.Servers[0]
		w.hold(s.ID, 0, 0, resource.Amounts{"VCPU": 77})
		if what == "profile" {
			w.Providers[0].Inventories["FPGA"] = resource.Whole(1)
			w.hold(s.ID, 0, 0, resource.Amounts{"VCPU": 1, "MEMORY_MB": 512, "FPGA": 1})
		}
		if what == "resize" || what == "evacuation" {
			w.hold(s.ID, 1, 0, resource.Amounts{"VCPU": 5})
		}
		if len(NewView(w.Snapshot).Audit(options(t))) == 0 {
			t.Errorf("%s: nothing to explain", what)
		}
		explain(w, s)
		if found := NewView(w.Snapshot).Audit(options(t)); len(found) != 0 {
			t.Errorf("%s: %+v", what, found)
		}
	}
	w := newWorld(3, 1)
	orphan(0, resource.Amounts{"VCPU": 2})(w)
	for _, part := range []Part{Servers, Migrations} {
		s := clone(w.Snapshot)
		s.Gaps = []Gap{{Part: part}}
		if found := NewView(s).Audit(options(t)); len(found) != 0 {
			t.Errorf("without %s: %+v", part, found)
		}
	}
	for consumer := range NewView(w.Snapshot).Held { // a consumer of another service, such as Blazar
		s := clone(w.Snapshot)
		s.Consumers[consumer] = Consumer{Type: "RESERVATION"}
		if found := NewView(s).Audit(options(t)); s.Servers == nil || len(found) > 1 {
			t.Errorf("%s: %+v", consumer, found)
		}
	}
}

// Devices of aliases are compared only if the aliases are known, and a class beside its alias is reported.
func TestAliases(t *testing.T) {
	w := newWorld(3, 1)
	w.finishMoves()
	gpu := &w.Servers[8]
	w.hold(gpu.ID, 0, 1, resource.Amounts{"CUSTOM_GPU": 2})
	if found := NewView(w.Snapshot).Audit(AuditOptions{}); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	gpu.Flavor.ExtraSpecs = map[string]string{"pci_passthrough:alias": "gpu:1", "resources:CUSTOM_GPU": "1"}
	found := NewView(w.Snapshot).Audit(options(t))
	if len(found) != 1 || found[0].Rule != BesideAlias || found[0].Kept == "" {
		t.Errorf("%+v", found)
	}
	gpu.Flavor.ExtraSpecs = map[string]string{"pci_passthrough:alias": "unknown:1"}
	if found := NewView(w.Snapshot).Audit(options(t)); len(found) != 1 || found[0].Rule != UnknownRequest {
		t.Errorf("%+v", found)
	}
}

// What may have another reason is reported, and not healed: a cell that does not answer, and servers in ERROR. CPUs may
// be dedicated by an image whose properties are not shown.
func TestWhatIsKept(t *testing.T) {
	w := newWorld(3, 1)
	w.finishMoves()
	e := orphan(0, resource.Amounts{"VCPU": 2})(w)
	moved := endedMove("error")(w)
	bad := &w.Servers[0]
	w.hold(bad.ID, 0, 0, resource.Amounts{"VCPU": 9, "MEMORY_MB": 512})
	bad.Status = "ERROR"
	for i := range w.Servers {
		if w.Servers[i].ID == w.Migrations[len(w.Migrations)-1].Server {
			w.Servers[i].Status = "ERROR"
		}
	}
	kept := map[string]string{}
	for _, f := range NewView(w.Snapshot).Audit(options(t)) {
		kept[f.Subject] = f.Kept
	}
	if len(kept) != 3 || kept[e.subject] != "" || kept[moved.subject] != serverInError || kept[bad.ID] != serverInError {
		t.Errorf("%q", kept)
	}
	w.Services[1].Status = "UNKNOWN"
	w.Hypervisors = w.Hypervisors[:2]
	for _, p := range []int{6, 7, 8} {
		w.Providers[p].Held = nil
	}
	w.hold("unlisted", 1, 0, resource.Amounts{"VCPU": 1})
	w.hold("both", 0, 0, resource.Amounts{"VCPU": 1}) // hosts of both cells
	w.hold("both", 1, 0, resource.Amounts{"VCPU": 1})
	for _, id := range []resource.ConsumerID{"unlisted", "both"} {
		w.Consumers[id] = Consumer{Generation: &generation, Project: "p", User: "u"}
	}
	cases := 0
	check := func(want func(f Finding) string) {
		t.Helper()
		for _, f := range NewView(w.Snapshot).Audit(options(t)) {
			if f.Rule == Orphaned || f.Rule == NoService {
				if cases++; f.Kept != want(f) {
					t.Errorf("%+v", f)
				}
			}
		}
	}
	check(func(f Finding) string { // the cell of the first host has answered
		if f.Subject == e.subject {
			return ""
		}
		return cellIsDown
	})
	all := func(Finding) string { return cellIsDown }
	services := w.Services
	w.Services = w.Services[1:] // the cell of the first host is silent, and its service not listed
	check(all)
	w.Services = services
	w.Gaps = []Gap{{Hypervisors, "503"}}
	check(all)
	w.Services[1].Status = "up" // an older Nova: only a server that it knows and does not list shows it
	w.Servers = append(w.Servers, Server{ID: "unlisted", Status: "UNKNOWN", FlavorUnknown: true})
	check(all)
	if cases < 10 {
		t.Errorf("only %d cases", cases)
	}
	w = newWorld(3, 1)
	w.finishMoves()
	s := &w.Servers[0]
	w.hold(s.ID, 0, 0, resource.Amounts{"PCPU": 1, "MEMORY_MB": 512})
	if found := NewView(w.Snapshot).Audit(options(t)); len(found) != 1 || found[0].Rule != Overcommitted {
		t.Errorf("%+v", found) // only because the host has no PCPU
	}
	s.ImageProperties = map[string]string{}
	if found := NewView(w.Snapshot).Audit(options(t)); len(found) != 3 {
		t.Errorf("%+v", found)
	}
}

// The provider of a PF has an owner if the agent reports only VFs of it; a device that no agent reports has none.
func TestReportedDevices(t *testing.T) {
	w := newWorld(3, 1)
	w.finishMoves()
	for h := range 2 {
		w.Reported = append(w.Reported, ReportedDevice{Host: fmt.Sprintf("cmp%d", h), Address: "0000:81:00.1",
			Provider: provider.ID(rp(h, 1))})
	}
	if found := NewView(w.Snapshot).Audit(options(t)); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	w.Reported[0].Provider = ""
	w.Reported[1].Holder = "other"
	found := NewView(w.Snapshot).Audit(options(t))
	if len(found) != 2 || found[0].Rule != OtherHolder || found[1].Rule != OwnerGone || found[1].Subject != rp(0, 1) {
		t.Errorf("%+v", found)
	}
}

// Where compute is Berth's, nothing is removed from an allocation: compute's database may be older than the hosts, as
// after a restore, and only agents know the guests. `berth host heal` asks them.
func TestNothingIsRemovedBesideBerth(t *testing.T) {
	removing := 0
	for name, damage := range damages {
		w := newWorld(3, 1)
		w.finishMoves()
		w.Berth = true
		if found := NewView(w.Snapshot).Audit(options(t)); len(found) != 0 {
			t.Fatalf("%+v", found)
		}
		damage(w)
		for _, f := range NewView(w.Snapshot).Audit(options(t)) {
			if f.Change == nil {
				if f.Kept == "" {
					t.Errorf("%s: %+v", name, f)
				}
				if f.Kept == agentsKnowGuests {
					removing++
				}
				continue
			}
			a := f.Change.Allocation
			if a == nil || f.Rule == PortAmounts { // the network service knows what its ports request
				continue
			}
			for id, amounts := range a.Before {
				for class, n := range amounts {
					if a.After[id][class] < n {
						t.Errorf("%s: %s removes %d %s of %s", name, f.Rule, n-a.After[id][class], class, id)
					}
				}
			}
		}
	}
	if removing < 10 {
		t.Errorf("only %d differences are kept", removing)
	}
}

// A PF of a card that is offered as VFs too takes all of the card, so its server holds more than one of the class.
func TestPFOfACardOfBothShapes(t *testing.T) {
	w := newWorld(3, 1)
	w.finishMoves()
	w.Berth = true
	w.hold(w.Servers[8].ID, 0, 1, resource.Amounts{"CUSTOM_GPU": 8})
	for kind, want := range map[string]int{"type-PF": 0, "type-VF": 1} {
		aliases, err := pci.ParseAliases(true, `{"name": "gpu", "resource_class": "CUSTOM_GPU", "device_type": "`+
			kind+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		if found := NewView(w.Snapshot).Audit(AuditOptions{Aliases: aliases, AliasesKnown: true}); len(found) != want {
			t.Errorf("%s: %+v", kind, found)
		}
	}
}

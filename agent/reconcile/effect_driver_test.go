package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/agent/treeplan"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	testHost  = "cmp1"
	testRoot  = provider.ID("11111111-1111-4111-8111-111111111111")
	testClass = "CUSTOM_GPU"
	testStart = "start"
)

// driver performs the effects of a state in a simulated environment: one host with two plain devices, its guests, its
// disk, and a compute that accepts everything. Tests choose which effect is performed when.
type driver struct {
	t       *testing.T
	state   *State
	now     time.Time
	pending []state.Effect // in progress, oldest first

	disk        journal.State
	guests      map[string]hypervisor.Guest
	received    map[string]hypervisor.Guest // prepared for guests that arrive by live migration
	refuses     error                       // result of Receive
	tree        provider.Tree
	reports     []host.Guest   // guest reports, by their arrival
	signals     []state.Effect // Cancel and Force
	hostReports int            // host reports that arrived
	alive       []host.Alive   // signs of life that arrived
}

func newDriver(t *testing.T) *driver {
	t.Helper()
	d := &driver{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), guests: map[string]hypervisor.Guest{},
		received: map[string]hypervisor.Guest{}}
	d.start()
	return d
}

// start begins a new start of the agent on what is on the disk.
func (d *driver) start() {
	d.t.Helper()
	rules, err := pci.ParseSpecs(`{"vendor_id":"10de","resource_class":"CUSTOM_GPU","properties":{"fabric":"p1-0"}}`)
	if err != nil {
		d.t.Fatal(err)
	}
	config := state.Config{Host: testHost, Dir: "dir", Rules: rules, Rescan: time.Minute, Parallel: 8,
		Preparations: state.Preparations{ReceivesGuests: true, PreparesSets: true},
		NewID:        func() string { return string(testRoot) }, Jitter: func() float64 { return 0 }}
	if d.state, err = New(config, d.disk, testStart); err != nil {
		d.t.Fatal(err)
	}
	d.pending = nil
	d.deliver(state.Start{})
}

// deliver passes an event to the state and adds its effects to the pending ones.
func (d *driver) deliver(e state.Event) {
	d.t.Helper()
	for _, effect := range d.state.Next(e, d.now) {
		switch effect := effect.(type) {
		case state.Log:
		case state.Stop:
			d.t.Fatalf("the agent stops: %v", effect.Err)
		default:
			d.check(effect)
			d.pending = append(d.pending, effect)
		}
	}
	if at := d.state.Deadline(); !at.IsZero() && !at.After(d.now) {
		d.t.Errorf("after %T the deadline is %s ago, so that Tick would be repeated without end", e, d.now.Sub(at))
	}
}

// check fails the test when an effect precedes what must be durable, or when its work already has one.
func (d *driver) check(e state.Effect) {
	d.t.Helper()
	for _, other := range d.pending {
		if work := state.WorkOf(e); work != "" && state.WorkOf(other) == work {
			d.t.Errorf("%T of %s while %T is in progress", e, work, other)
		}
		if _, writes := other.(state.WriteJournal); writes && fmt.Sprintf("%T", e) == fmt.Sprintf("%T", other) {
			d.t.Error("two writes of the journal at once")
		}
	}
	build, is := e.(state.Build)
	if !is {
		return
	}
	claims, known := d.disk.Of(build.Guest.ID)
	_, exists := d.guests[build.Guest.ID] // then its devices were recorded when the agent started, if it has any
	if !known && !exists || len(claims) != len(build.Guest.Devices) {
		d.t.Errorf("guest %s is built with %v, and the disk has %v", build.Guest.ID, build.Guest.Devices, claims)
	}
	for _, g := range d.guests {
		for _, device := range g.Devices {
			if g.ID != build.Guest.ID && slices.ContainsFunc(build.Guest.Devices, func(other hypervisor.Device) bool {
				return other.ID == device.ID
			}) {
				d.t.Errorf("guest %s is built with %s, which guest %s has", build.Guest.ID, device.ID, g.ID)
			}
		}
	}
}

// perform performs the i-th pending effect and delivers its result. A Watch stays open.
func (d *driver) perform(i int) {
	d.t.Helper()
	e := d.pending[i]
	d.pending = slices.Delete(d.pending, i, i+1)
	switch e := e.(type) {
	case state.WriteJournal:
		d.disk = d.disk.With(e.Entries...)
		d.deliver(state.Written{})
	case state.Admit:
		d.deliver(state.Admitted{})
	case state.SendAlive:
		d.alive = append(d.alive, e.Alive)
		d.deliver(state.AliveSent{})
	case state.ReportHost:
		d.hostReports++
		d.deliver(state.HostReported{})
	case state.Observe:
		d.deliver(state.Observed{Observation: d.observe()})
	case state.ReadUses:
		d.deliver(state.UsesRead{Uses: treeplan.Uses{}})
	case state.ReadAllocations:
		d.deliver(state.AllocationsRead{Allocations: map[resource.ConsumerID]placement.ConsumerAllocation{}})
	case state.WriteProvider:
		d.tree = treeplan.Apply(treeplan.Plan{Steps: []treeplan.Step{e.Step}}, d.tree)
		d.deliver(state.ProviderWritten{Generation: e.Step.Generation + 1})
	case state.CleanDevice:
		d.deliver(state.CleanEnded{})
	case state.Cancel, state.Force:
		d.signals = append(d.signals, e)
	default:
		d.work(e)
	}
}

// work performs an effect of a work.
func (d *driver) work(e state.Effect) {
	d.t.Helper()
	done := state.WorkDone{Work: state.WorkOf(e)}
	switch e := e.(type) {
	case state.ReadAllocation:
		done.Allocation.Allocation = resource.Allocation{testRoot: {"VCPU": 1}}
	case state.Build:
		if was, exists := d.guests[e.Guest.ID]; exists && was.Build == e.Guest.Build {
			e.Guest.Image = was.Image // it keeps its disk
		}
		d.guests[e.Guest.ID] = e.Guest
	case state.Receive:
		if d.received[e.Guest.ID], done.Err = e.Guest, d.refuses; done.Err != nil {
			delete(d.received, e.Guest.ID)
		}
	case state.Forget:
		delete(d.received, e.ID)
	case state.Destroy:
		delete(d.guests, e.ID)
		delete(d.received, e.ID)
	case state.Rename:
		g, exists := d.guests[e.Was]
		if _, both := d.guests[e.ID]; exists && both {
			done.Err = fault.New(fault.Conflict, "there is a guest %s and a guest %s", e.Was, e.ID)
		} else if exists {
			delete(d.guests, e.Was)
			g.ID, g.Server = e.ID, e.Server
			d.guests[e.ID] = g
		}
	case state.Migrate:
		g := d.guests[e.Work]
		g.Departed = true
		d.guests[e.Work] = g
	case state.SettleMigration:
		done.Departed = d.guests[e.ID].Departed
	case state.ListGuests:
		done.Guests = d.list()
	case state.ReportGuest:
		d.reports = append(d.reports, e.Guest)
	default:
		done.Err = fault.New(fault.Internal, "unknown effect %T", e)
	}
	d.deliver(done)
}

func (d *driver) list() []hypervisor.Guest {
	var list []hypervisor.Guest
	for _, id := range slices.Sorted(maps.Keys(d.guests)) {
		list = append(list, d.guests[id])
	}
	return list
}

func (d *driver) observe() state.Observation {
	root, exists := d.tree.Root()
	o := state.Observation{Guests: d.list(), Capacity: hypervisor.Capacity{VCPUs: 8, MemoryMB: 8192, DiskGB: 100},
		Tree: d.tree, ByName: d.state.core.Root == "" || !exists}
	if exists {
		o.Named = &root
	}
	for bus := range uint8(2) {
		o.Machine.Devices = append(o.Machine.Devices, pci.Device{Address: pci.Address{Bus: 0x80 + bus}, Vendor: "10de",
			Product: "20b0", Type: pci.Plain, Class: 0x030200})
	}
	o.Machine.Nodes = []facts.Node{{ID: 0, CPUs: []int{0, 1, 2, 3, 4, 5, 6, 7}, Socket: 0, MemoryMB: 8192}}
	return o
}

// settle performs effects, oldest first, until only those for which keep returns true and streams are left.
func (d *driver) settle(keep func(state.Effect) bool) {
	d.t.Helper()
	for range 10_000 {
		i := slices.IndexFunc(d.pending, func(e state.Effect) bool {
			_, stream := e.(state.Watch)
			return !stream && (keep == nil || !keep(e))
		})
		if i < 0 {
			return
		}
		d.perform(i)
	}
	var kinds []string
	for _, e := range d.pending {
		kinds = append(kinds, fmt.Sprintf("%T %s", e, state.WorkOf(e)))
	}
	d.t.Fatalf("the effects do not end: %v, last report %+v", kinds, d.reports[len(d.reports)-1])
}

// advanceTime advances the time in steps, with a Tick at each deadline.
func (d *driver) advanceTime(duration time.Duration, keep func(state.Effect) bool) {
	d.t.Helper()
	for end := d.now.Add(duration); d.now.Before(end); {
		next := end
		if at := d.state.Deadline(); !at.IsZero() && at.Before(end) {
			next = at
		}
		d.now = next
		d.deliver(state.Tick{})
		d.settle(keep)
	}
}

// assign delivers assignments of servers, each with one device.
func (d *driver) assign(revision int64, ids ...string) {
	d.t.Helper()
	l := host.Assignments{Cloud: "c", Position: host.Position{Epoch: 1, EpochID: "e", Revision: revision}}
	for _, id := range ids {
		l.Servers = append(l.Servers, host.Server{ID: id, Name: id, VCPUs: 1, MemoryMB: 64, Requests: []host.Request{
			{ID: "r-" + id, Alias: "gpu", Count: 1, VendorID: "10de", Class: testClass}}})
	}
	for _, id := range d.disk.Servers() {
		if !slices.Contains(ids, id) {
			l.Remove = append(l.Remove, host.Removal{ID: id})
		}
	}
	d.deliver(state.Received{Assignments: l})
}

// phase returns the phase of the last guest report.
func (d *driver) phase() host.Phase {
	if len(d.reports) == 0 {
		return ""
	}
	return d.reports[len(d.reports)-1].Phase
}

package conductor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/compute/presence"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// agents are the agents of all hosts, with one journal. They outlive each conductor, repeat their reports until they
// are accepted, and build, move or fail as the test sets.
type agents struct {
	store     *store.Store // to read the assignments, as the watch would
	conductor func() *Conductor
	images    *imageService
	fails     func(host string) string // why guests cannot be built there, or nothing
	stuck     func(host string) string // why guests cannot leave it by live migration, or nothing

	mu      sync.Mutex
	devices map[string][]string // addresses of each host
	guests  map[string]map[string]*guest
	pending map[string][]func(*Conductor) error
	broken  map[string]bool // by host and consumer: failed here
	paused  map[string]bool // hosts whose agents do nothing
	removed map[string]bool // by host and consumer: the removal has been reported and compute still names it
	number  int64           // of the last guest report of any of them
}

// guest is what an agent's journal and hypervisor have of one consumer.
type guest struct {
	devices   []schedule.Picked
	build     int
	runs      bool
	confirmed bool   // compute has confirmed its claim
	reported  string // the phase that was reported last
}

// reconcile makes the guests of each host agree with its assignments, once.
func (a *agents) reconcile(t *testing.T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for host := range a.devices {
		if a.paused[host] {
			continue
		}
		now, err := a.store.Assignments(context.Background(), host)
		if err != nil {
			t.Errorf("assignments of %s: %v", host, err)
			return
		}
		a.rename(host, now.Entries)
		wanted := map[string]bool{}
		for _, e := range now.Entries {
			wanted[e.Consumer] = true
		}
		a.remove(t, host, wanted, now.Removals)
		for key := range a.broken {
			if strings.HasPrefix(key, host+" ") && !wanted[strings.TrimPrefix(key, host+" ")] {
				delete(a.broken, key)
			}
		}
		for _, e := range now.Entries {
			a.build(t, host, e)
		}
	}
	a.deliver()
}

// remove destroys the guests that are named for removal, and no other. What was claimed and never built is dropped when
// it is not mentioned.
func (a *agents) remove(t *testing.T, host string, wanted map[string]bool, removals []lifecycle.Removal) {
	named := map[string]bool{}
	for _, r := range removals {
		for _, id := range []string{r.Consumer, r.PreviousConsumer} {
			named[id] = true
			if !wanted[id] {
				delete(a.guests[host], id)
			}
		}
		if key := host + " " + r.Consumer; !a.removed[key] {
			a.queue(host, r.Consumer, lifecycle.GuestGone{Host: host, Consumer: r.Consumer})
			a.removed[key] = true
		}
	}
	for key := range a.removed {
		if at, id, _ := strings.Cut(key, " "); at == host && !named[id] {
			delete(a.removed, key)
		}
	}
	for id, g := range a.guests[host] {
		switch {
		case wanted[id] || named[id]:
		case !g.confirmed:
			delete(a.guests[host], id)
			a.queue(host, id, lifecycle.GuestGone{Host: host, Consumer: id})
		default:
			t.Errorf("the guest %s on %s is neither assigned nor named for removal", id, host)
			delete(a.guests[host], id)
		}
	}
}

// rename gives guests the ids that they have in the assignments.
func (a *agents) rename(host string, entries []*store.Entry) {
	for _, e := range entries {
		if was := a.guests[host][e.PreviousConsumer]; e.PreviousConsumer != "" && was != nil &&
			a.guests[host][e.Consumer] == nil {
			delete(a.guests[host], e.PreviousConsumer)
			a.guests[host][e.Consumer] = was
			was.reported, was.confirmed = "", true
		}
	}
}

// build makes one guest agree with its entry.
func (a *agents) build(t *testing.T, host string, e *store.Entry) {
	id := e.Consumer
	g := a.guests[host][id]
	switch {
	case a.broken[host+" "+id]:
		return
	case g == nil && a.fails != nil && a.fails(host) != "":
		a.broken[host+" "+id] = true
		a.queue(host, id, lifecycle.GuestFailed{Host: host, Consumer: id, Message: a.fails(host)})
		return
	case g == nil:
		picked, ok := a.pick(host, e.Requests)
		if !ok {
			t.Errorf("%s was given %s, and has no device for it", host, id)
			a.broken[host+" "+id] = true
			return
		}
		if e.DiskImage != "" && !a.images.hasData(e.DiskImage) {
			t.Errorf("%s: the guest is built from the image %s, which has no data", id, e.DiskImage)
		}
		g = &guest{devices: picked}
		a.guests[host][id] = g // the journal comes first
	}
	if !g.confirmed && a.guest(a.conductor(), host, id, a.next(), lifecycle.GuestClaimed{Host: host, Consumer: id,
		Devices: g.devices, Build: e.Server.Builds}) != nil {
		return // a guest is built only after its claim is confirmed
	}
	g.confirmed = true
	if e.Incoming {
		return
	}
	if e.Outgoing != "" {
		a.send(host, id, e, g)
		return
	}
	g.build, g.runs = e.Server.Builds, e.Power == lifecycle.On
	phase := fmt.Sprint(g.runs, g.build, e.UploadTo)
	if g.reported == phase {
		return
	}
	g.reported = phase
	var upload *lifecycle.DiskUpload
	if e.UploadTo != "" {
		uploaded := a.images.upload(e.UploadTo)
		upload = &uploaded
	}
	if g.runs {
		a.queue(host, id, lifecycle.GuestRunning{Host: host, Consumer: id, Devices: g.devices, Build: g.build,
			Upload: upload})
	} else {
		a.queue(host, id, lifecycle.GuestStopped{Host: host, Consumer: id, Devices: g.devices, Build: g.build,
			Upload: upload})
	}
}

// send migrates a guest live: it no longer runs on this host.
func (a *agents) send(host, id string, e *store.Entry, g *guest) {
	switch {
	case g.reported == "outgoing":
	case a.stuck != nil && a.stuck(host) != "":
		g.reported = "outgoing"
		a.queue(host, id, lifecycle.GuestFailed{Host: host, Consumer: id, Message: a.stuck(host)})
	default:
		if len(e.DeviceMap) != len(g.devices) {
			panic(fmt.Sprintf("%d devices are to become %v", len(g.devices), e.DeviceMap))
		}
		g.reported, g.runs = "outgoing", false
		a.queue(host, id, lifecycle.GuestMigrated{Host: host, Consumer: id})
	}
}

// pick takes free devices of the chosen providers.
func (a *agents) pick(host string, requests []pci.Request) ([]schedule.Picked, bool) {
	held := map[string]bool{}
	for _, g := range a.guests[host] {
		for _, d := range g.devices {
			held[d.Address] = true
		}
	}
	var picked []schedule.Picked
	for _, r := range requests {
		for i := range r.Count {
			at := slices.IndexFunc(a.devices[host], func(address string) bool {
				return !held[address] && (i >= len(r.Providers) || r.Providers[i] == of(host, address))
			})
			if at < 0 {
				return nil, false
			}
			address := a.devices[host][at]
			held[address] = true
			picked = append(picked, schedule.Picked{RequestID: r.ID, Address: address, Provider: of(host, address)})
		}
	}
	return picked, true
}

// of is the provider of a device: those of bus 3c are of the second provider of the host.
func of(host, address string) provider.ID {
	if strings.HasPrefix(address, "0000:3c") {
		return provider.ID("qf-" + host)
	}
	return provider.ID("pf-" + host)
}

func (a *agents) queue(host, id string, e lifecycle.Event) {
	number := a.next()
	a.pending[host] = append(a.pending[host], func(c *Conductor) error {
		err := a.guest(c, host, id, number, e)
		if _, late := errors.AsType[*presence.Late](err); late {
			return nil // something newer is known already
		}
		return err
	})
}

func (a *agents) next() int64 {
	a.number++
	return a.number
}

func (a *agents) guest(c *Conductor, host, id string, number int64, e lifecycle.Event) error {
	return c.Guest(context.Background(), id, "start", lifecycle.Report{Host: host, Instance: "agent-" + host,
		Number: number, Event: e})
}

// deliver sends the pending reports of each host in order, until one fails.
func (a *agents) deliver() {
	for host, list := range a.pending {
		for len(list) > 0 && list[0](a.conductor()) == nil {
			list = list[1:]
		}
		a.pending[host] = list
	}
}

// pause stops the agent of a host, or starts it again.
func (a *agents) pause(host string, down bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.paused[host] = down
}

package loop

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// simSlots is the number of slots of a simulated host, and simHosts the number of hosts.
const (
	simSlots = 64
	simHosts = 100
)

// slotSystem is a system with slots whose owners change, that are pulled, and whose firmware restarts. Its hypervisor
// refuses a partition with a slot that it cannot have, as the driver does.
type slotSystem struct {
	hypervisor.Hypervisor
	rules inventoryfile.Rules

	mu      sync.Mutex
	foreign map[ioslot.Index]bool // another client's partition has it
	pulled  map[ioslot.Index]bool
	starts  bool // the firmware starts: no slots are reported
	down    bool // the REST API does not answer
	owners  map[ioslot.Index]string
	wrong   []string // partitions that were built with a slot that they cannot have
}

func (s *slotSystem) Check() error { return nil }

func (s *slotSystem) Read(pci.Rules) (facts.Facts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return facts.Facts{}, fault.New(fault.Unavailable, "", "the REST API does not answer")
	}
	system := ioslot.System{Name: "sys1", Reported: !s.starts}
	for i := range ioslot.Index(simSlots) {
		if s.starts || s.pulled[i+1] {
			continue
		}
		slot := ioslot.Slot{Index: i + 1, Vendor: ioslot.Known(0x10DE), Owner: ioslot.Owner{Kind: ioslot.Unowned}}
		if s.foreign[i+1] || s.owners[i+1] != "" {
			slot.Owner = ioslot.Owner{Kind: ioslot.Owned, PartitionID: 9}
		}
		system.Slots = append(system.Slots, slot)
	}
	return facts.Facts{Slots: &facts.IOSlots{System: system, Rules: s.rules}}, nil
}

// Build builds a guest if it can have its slots.
func (s *slotSystem) Build(ctx context.Context, g hypervisor.Guest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range g.Devices {
		index := ioslot.Index(d.ID.Address().DRC)
		switch owner := s.owners[index]; {
		case owner == g.ID:
		case owner != "":
			s.wrong = append(s.wrong, fmt.Sprintf("%s has the guests %s and %s", index, owner, g.ID))
		case s.foreign[index] || s.pulled[index]:
			return fault.New(fault.Conflict, "", "the slot %s belongs to another partition or is gone", index)
		}
	}
	if err := s.Hypervisor.Build(ctx, g); err != nil {
		return err
	}
	for _, d := range g.Devices {
		s.owners[ioslot.Index(d.ID.Address().DRC)] = g.ID
	}
	return nil
}

// Destroy deletes a partition, which frees its slots.
func (s *slotSystem) Destroy(ctx context.Context, id string) error {
	if err := s.Hypervisor.Destroy(ctx, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.owners, func(_ ioslot.Index, owner string) bool { return owner == id })
	return nil
}

// change changes the system.
func (s *slotSystem) change(how func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	how()
}

// slotHost is a simulated host with its servers.
type slotHost struct {
	*testHost
	system  *slotSystem
	rng     *rand.Rand
	servers map[string]host.Server
	last    int
}

// 100 hosts with 64 slots each: other owners take and return slots, adapters are pulled and put back, the firmware
// restarts, the agent crashes, and servers come and go. No slot ever has two guests, each guest that runs has the slots
// of its allocation, and no other provider is touched. In the end Placement offers exactly the slots that are free.
func TestSimulationOfHostsWithIOSlots(t *testing.T) {
	for seed := 0; seed < simHosts; seed += testenv.Stride(20) {
		t.Run(fmt.Sprint("host ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { newSimulatedHost(t, uint64(seed)).run() })
		})
	}
}

func newSimulatedHost(t *testing.T, seed uint64) *slotHost {
	h := &slotHost{testHost: newTestHost(t), rng: rand.New(rand.NewPCG(seed, 1)), servers: map[string]host.Server{}}
	file, problems := inventoryfile.Parse("inventory.yaml",
		[]byte("gpus: {identification: {vendor_id: 10DE}, resource_class: CUSTOM_GPU}\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	h.system = &slotSystem{Hypervisor: h.guests, rules: inventoryfile.Merge(file), foreign: map[ioslot.Index]bool{},
		pulled: map[ioslot.Index]bool{}, owners: map[ioslot.Index]string{}}
	h.options.Facts, h.options.Hypervisor, h.options.Rules = h.system, h.system, nil
	h.options.Rescan = 5 * time.Minute
	h.placement.setTree(provider.Provider{ID: rootID, Name: "cmp1"}, provider.Provider{ID: "foreign",
		Name: "PowerVM PF 00000001", Parent: rootID, Root: rootID, Generation: 7})
	return h
}

// run performs random operations, and checks the host when it is at rest.
func (h *slotHost) run() {
	_, stop := h.startReported()
	for range 8 {
		switch op := h.rng.IntN(10); {
		case op < 4:
			h.createServer()
		case op < 6:
			h.deleteServer()
		case op == 6:
			must(h.t, stop())
			h.system.change(func() { h.system.down = false }) // an agent that starts waits for the server
			_, stop = h.startReported()
		default:
			h.disturb(op)
		}
		time.Sleep(time.Duration(h.rng.IntN(600)) * time.Second)
		h.check()
	}
	h.system.change(func() { h.system.starts, h.system.down = false, false })
	time.Sleep(11 * time.Minute)
	h.check()
	h.checkRest()
	must(h.t, stop())
}

// disturb changes a slot or the firmware.
func (h *slotHost) disturb(op int) {
	index := ioslot.Index(1 + h.rng.IntN(simSlots))
	h.system.change(func() {
		switch owned := h.system.owners[index] != ""; {
		case op == 7 && !owned:
			h.system.foreign[index] = !h.system.foreign[index]
		case op == 8:
			h.system.pulled[index] = !h.system.pulled[index]
		case op == 9:
			h.system.starts, h.system.down = h.rng.IntN(3) == 0, h.rng.IntN(3) == 0
		}
	})
}

// createServer claims one to three slots that Placement offers, as the scheduler does.
func (h *slotHost) createServer() {
	var free []provider.ID
	for _, p := range h.placement.tree().Providers {
		inv := p.Inventories[slotClass]
		if p.Parent != "" && inv.Total-inv.Reserved-h.placement.Used(p.ID)[slotClass] > 0 {
			free = append(free, p.ID)
		}
	}
	n := 1 + h.rng.IntN(3)
	if len(free) < n {
		return
	}
	h.last++
	s := host.Server{ID: fmt.Sprint("s", h.last), Name: "server", VCPUs: 1, MemoryMB: 512, DiskGB: 1}
	a := resource.Allocation{rootID: {"VCPU": 1}}
	for _, i := range h.rng.Perm(len(free))[:n] {
		a[free[i]] = resource.Amounts{slotClass: 1}
	}
	h.placement.SetAllocation(resource.ConsumerID(s.ID), a)
	h.servers[s.ID] = s
	h.assign()
}

// deleteServer deletes a server: compute frees its allocation when the agent reports it gone.
func (h *slotHost) deleteServer() {
	for _, id := range slices.Sorted(maps.Keys(h.servers)) {
		delete(h.servers, id)
		h.assign()
		h.until(id+" gone", func() bool { return h.inPhase(host.Gone, id) })
		h.placement.remove(resource.ConsumerID(id))
		return
	}
}

func (h *slotHost) assign() {
	var list []host.Server
	for _, id := range slices.Sorted(maps.Keys(h.servers)) {
		list = append(list, h.servers[id])
	}
	h.compute.assign(list...)
}

// check checks what must always be so.
func (h *slotHost) check() {
	h.t.Helper()
	h.holders() // fails if a slot has two guests
	h.system.change(func() {
		if len(h.system.wrong) > 0 {
			h.t.Errorf("%v", h.system.wrong)
		}
	})
	guests, err := h.guests.Guests(h.t.Context())
	must(h.t, err)
	for _, g := range guests {
		held := h.placement.Held(resource.ConsumerID(g.ID))
		if _, wanted := h.servers[g.ID]; wanted && len(g.Devices) != len(held)-1 {
			h.t.Errorf("%s runs with %d slots and has an allocation of %d", g.ID, len(g.Devices), len(held)-1)
		}
	}
	if p := h.provider("PowerVM PF 00000001"); p.Generation != 7 {
		h.t.Errorf("a foreign provider was touched: %+v", p)
	}
}

// checkRest checks a host where nothing happens: Placement offers the slots that are free, and no others.
func (h *slotHost) checkRest() {
	h.t.Helper()
	holders := h.holders()
	for i := range ioslot.Index(simSlots) {
		index := i + 1
		p := h.provider(ioslot.ProviderName("cmp1", index))
		used := h.placement.Used(p.ID)[slotClass]
		inv := p.Inventories[slotClass]
		offered := inv.Total-inv.Reserved-used > 0
		want := !h.system.pulled[index] && !h.system.foreign[index] && holders[index.String()] == "" && used == 0
		if offered != want {
			h.t.Errorf("%s is offered: %v; foreign %v, pulled %v, holder %q, used %d", index, offered,
				h.system.foreign[index], h.system.pulled[index], holders[index.String()], used)
		}
		if p.ID == "" && (used > 0 || holders[index.String()] != "") {
			h.t.Errorf("%s has a guest and no provider", index)
		}
	}
}

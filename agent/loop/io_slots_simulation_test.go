package loop

import (
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openberth/berth/agent/hypervisor/powervm"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/powervm/restclient"
	"github.com/openberth/berth/agent/powervm/slotsource"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/novalink"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// simSlots is the number of slots of a simulated host, and simHosts the number of hosts.
const (
	simSlots = 64
	simHosts = 50
)

// slotHost is a simulated host with its servers: the agent with the driver for PowerVM, the client of the REST API and
// the source of slots, on a fake NovaLink.
type slotHost struct {
	*testHost
	novalink *novalink.Server
	name     string
	root     provider.ID
	rng      *rand.Rand
	slots    map[uint32]*novalink.Slot // all, also those that are pulled
	servers  map[string]host.Server
	last     int
	foreign  map[provider.ID]provider.Provider // that the agent must not touch

	happened map[string]int // for the check that the simulation has what it promises

	mu    sync.Mutex
	wrong []string // writes to providers of others
}

// 100 hosts, 20 with the race detector, with 64 slots each, whose DRC indices are equal, share one Placement. Other
// owners take and return slots, adapters are pulled and put back, the firmware restarts, agents crash, and servers come
// and go. No slot ever has two partitions, each partition has exactly the slots of its allocation, and no agent writes
// to a provider of another host or of another family. In the end Placement offers exactly the slots that are free.
func TestSimulationOfHostsWithIOSlots(t *testing.T) {
	shared := placementtest.New(nil)
	var mu sync.Mutex
	happened, hosts := map[string]int{}, 0
	t.Cleanup(func() {
		t.Logf("%d hosts: %v", hosts, happened)
		for what, atLeast := range map[string]int{"created": 2, "deleted": 1, "running": 10, "restarted agent": 0,
			"other owner": 0, "pulled": 0, "absent service": 0, "initializing system": 0} {
			if n := happened[what]; n <= atLeast*hosts/10 {
				t.Errorf("%s: only %d in %d hosts", what, n, hosts)
			}
		}
	})
	stride := testenv.Stride(10)
	if raceDetector {
		stride = max(stride, 5)
	}
	for seed := 0; seed < simHosts; seed += stride {
		t.Run(fmt.Sprint("host ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newSimulatedHost(t, uint64(seed), shared)
				h.run()
				mu.Lock()
				defer mu.Unlock()
				hosts++
				for what, n := range h.happened {
					happened[what] += n
				}
			})
		})
	}
}

func newSimulatedHost(t *testing.T, seed uint64, shared *placementtest.Placement) *slotHost {
	h := &slotHost{testHost: newTestHost(t), rng: rand.New(rand.NewPCG(seed, 1)),
		name:  fmt.Sprint("cmp", seed),
		root:  provider.ID(fmt.Sprintf("11111111-1111-4111-8111-%012x", seed)),
		slots: map[uint32]*novalink.Slot{}, servers: map[string]host.Server{},
		happened: map[string]int{}, foreign: map[provider.ID]provider.Provider{}}
	h.placement.Placement = shared.Client(h.watch)
	system := &novalink.System{UUID: "11111111-2222-3333-4444-555555555555", Name: "sys1", Owner: true}
	for i := range uint32(simSlots) {
		slot := novalink.GPU(0x21010000+i, fmt.Sprintf("U%d-P1-C%d", seed, i))
		system.Slots, h.slots[slot.Index] = append(system.Slots, slot), slot
	}
	h.novalink = novalink.New(novalink.Options{TokenDir: h.dir}, system)
	newClient := func() *restclient.Client { // source and driver have one each: a client remembers what it has returned
		client, err := restclient.New(restclient.Options{HTTP: rest.InMemory(h.novalink)})
		must(t, err)
		return client
	}
	file := filepath.Join(h.dir, "inventory.yaml")
	must(t, os.WriteFile(file, []byte("gpus: {identification: {vendor_id: 10DE}, resource_class: CUSTOM_GPU}\n"), 0o600))
	source := slotsource.New(slotsource.Options{Systems: newClient(), Files: []string{file}})
	h.options.Host, h.options.NewID = h.name, func() string { return string(h.root) }
	h.options.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	h.options.Facts, h.options.Rules, h.options.Rescan = source, nil, 5*time.Minute
	h.options.Hypervisor = powervm.New(newClient(), powervm.Options{Dir: filepath.Join(h.dir, "partitions"), DiskGB: 100,
		LastRead: source.LastRead})
	h.placement.SetProvider(provider.Provider{ID: h.root, Name: h.name, Root: h.root})
	for i, name := range []string{"PowerVM PF 21010000 " + h.name, "PowerVM IOSlot " + h.name + "x 21010000",
		"PowerVM IOSlotX " + h.name + " 21010000"} {
		p := provider.Provider{ID: provider.ID(fmt.Sprintf("22222222-2222-4222-8222-%06d%06d", seed, i)), Name: name,
			Parent: h.root, Root: h.root, Generation: 7, Traits: []resource.Trait{"CUSTOM_FOREIGN"},
			Inventories: map[resource.Class]resource.Inventory{slotClass: resource.Whole(1)}}
		h.placement.SetProvider(p)
		h.foreign[p.ID], _ = h.placement.Provider(p.ID)
	}
	return h
}

// watch notes a write of the agent to a provider that is not its own.
func (h *slotHost) watch(call placementtest.Call) (before, after error) {
	p, exists := h.placement.Provider(call.Provider)
	if _, foreign := h.foreign[call.Provider]; call.Writes() && exists && (foreign || p.Root != h.root) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.wrong = append(h.wrong, fmt.Sprintf("%s of %s", call.Op, p.Name))
	}
	return nil, nil
}

// run performs random operations, and checks the host after each and when it is at rest.
func (h *slotHost) run() {
	_, stop := h.startReported()
	for range 8 {
		switch op := h.rng.IntN(10); {
		case op < 4:
			h.createServer()
		case op < 6:
			h.deleteServer()
		case op == 6:
			h.happened["restarted agent"]++
			must(h.t, stop())
			h.recover() // an agent that starts waits for the server
			_, stop = h.startReported()
		default:
			h.disturb(op)
		}
		time.Sleep(time.Duration(h.rng.IntN(600)) * time.Second)
		h.check()
	}
	h.recover()
	time.Sleep(11 * time.Minute)
	h.check()
	h.checkRest()
	must(h.t, stop())
}

// recover ends a restart of the firmware.
func (h *slotHost) recover() {
	h.novalink.Change(func(o *novalink.Options, systems []*novalink.System) {
		o.Starting, systems[0].NoIO = false, false
		systems[0].Touch()
	})
}

// disturb gives a slot to another owner or takes it back, pulls an adapter or puts it back, or restarts the firmware:
// the service is absent for a while, sessions end, and the system does not report its slots for a while.
func (h *slotHost) disturb(op int) {
	slot := h.slots[0x21010000+h.rng.Uint32N(simSlots)]
	absent, initializing := h.rng.IntN(3) == 0, h.rng.IntN(3) == 0
	if op == 9 {
		h.novalink.EndSessions()
	}
	h.novalink.Change(func(o *novalink.Options, systems []*novalink.System) {
		s := systems[0]
		_, owned := s.Owners()[slot.Index]
		switch {
		case op == 7 && slot.ForeignID != "":
			slot.ForeignID = ""
		case op == 7 && !owned:
			slot.ForeignID = "9"
			h.happened["other owner"]++
		case op == 8 && slices.Contains(s.Slots, slot):
			h.happened["pulled"]++
			s.Slots = slices.DeleteFunc(s.Slots, func(one *novalink.Slot) bool { return one == slot })
		case op == 8:
			s.Slots = append(s.Slots, slot)
		case op == 9:
			o.Starting, s.NoIO = absent, initializing
			h.count("absent service", absent)
			h.count("initializing system", initializing)
		}
		s.Touch()
	})
}

func (h *slotHost) count(what string, happened bool) {
	if happened {
		h.happened[what]++
	}
}

// ownTree returns the providers of the host by name.
func (h *slotHost) ownTree() map[string]provider.Provider {
	out := map[string]provider.Provider{}
	for _, id := range h.placement.TreeIDs(h.root) {
		p, _ := h.placement.Provider(id)
		out[p.Name] = p
	}
	return out
}

// createServer claims one to three slots that Placement offers, as the scheduler does.
func (h *slotHost) createServer() {
	var free []provider.ID
	for _, p := range h.ownTree() {
		inv := p.Inventories[slotClass]
		if _, foreign := h.foreign[p.ID]; !foreign && inv.Total-inv.Reserved-h.placement.Used(p.ID)[slotClass] > 0 {
			free = append(free, p.ID)
		}
	}
	slices.Sort(free)
	n := 1 + h.rng.IntN(3)
	if len(free) < n {
		return
	}
	h.last++
	s := host.Server{ID: fmt.Sprintf("0%.7s-0000-4000-8000-%012d", h.root[29:], h.last), Name: "server", VCPUs: 1,
		MemoryMB: 512, DiskGB: 1}
	a := resource.Allocation{h.root: {"VCPU": 1}}
	for _, i := range h.rng.Perm(len(free))[:n] {
		a[free[i]] = resource.Amounts{slotClass: 1}
	}
	h.placement.SetAllocation(resource.ConsumerID(s.ID), a)
	h.servers[s.ID] = s
	h.happened["created"]++
	h.assign()
}

// deleteServer deletes a server: compute frees its allocation when the agent reports it gone.
func (h *slotHost) deleteServer() {
	for _, id := range slices.Sorted(maps.Keys(h.servers)) {
		delete(h.servers, id)
		h.happened["deleted"]++
		h.assign()
		h.recover() // a partition is deleted when the service answers
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

// partitions returns the slots of each partition, by UUID.
func (h *slotHost) partitions() (out map[string][]uint32) {
	h.novalink.Change(func(_ *novalink.Options, systems []*novalink.System) {
		out = systems[0].PartitionSlots()
		for _, text := range systems[0].Contested {
			h.t.Errorf("%s requested the slot %s", h.name, text)
		}
	})
	return out
}

// allocated returns the DRC indices of the slots that Placement has allocated to a server, sorted.
func (h *slotHost) allocatedSlots(server string) (list []uint32) {
	for id := range h.placement.Held(resource.ConsumerID(server)) {
		p, _ := h.placement.Provider(id)
		if _, index, slot, err := ioslot.ParseProviderName(p.Name); slot && err == nil {
			list = append(list, uint32(index))
		}
	}
	slices.Sort(list)
	return list
}

// check checks what must always be so.
func (h *slotHost) check() {
	h.t.Helper()
	owner := map[uint32]string{}
	partitions := h.partitions()
	for uuid, slots := range partitions {
		slices.Sort(slots)
		if want := h.allocatedSlots(strings.ToLower(uuid)); !slices.Equal(slots, want) {
			h.t.Errorf("%s: the partition %s has the slots %08X, and its allocation %08X", h.name, uuid, slots, want)
		}
		for _, index := range slots {
			if owner[index] != "" {
				h.t.Errorf("%s: %08X has the partitions %s and %s", h.name, index, owner[index], uuid)
			}
			owner[index] = uuid
		}
	}
	for id := range h.servers {
		h.count("running", h.inPhase(host.Running, id))
		if _, exists := partitions[strings.ToUpper(id)]; h.inPhase(host.Running, id) && !exists {
			h.t.Errorf("%s: the server %s is running and has no partition", h.name, id)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wrong) > 0 {
		h.t.Errorf("%s wrote to providers of others: %v", h.name, h.wrong)
	}
	for id, was := range h.foreign {
		if p, _ := h.placement.Provider(id); fmt.Sprint(p) != fmt.Sprint(was) {
			h.t.Errorf("a foreign provider was %+v, is %+v", was, p)
		}
	}
}

// checkRest checks a host where nothing happens: Placement offers the slots that are free, and no others.
func (h *slotHost) checkRest() {
	h.t.Helper()
	tree, owner, offers := h.ownTree(), map[uint32]string{}, 0
	for uuid, slots := range h.partitions() {
		for _, index := range slots {
			owner[index] = uuid
		}
	}
	var present []*novalink.Slot
	h.novalink.Change(func(_ *novalink.Options, systems []*novalink.System) { present = systems[0].Slots })
	for index, slot := range h.slots {
		p := tree[ioslot.ProviderName(h.name, ioslot.Index(index))]
		used := h.placement.Used(p.ID)[slotClass]
		inv := p.Inventories[slotClass]
		offered := inv.Total-inv.Reserved-used > 0
		pulled := !slices.Contains(present, slot)
		if want := !pulled && slot.ForeignID == "" && owner[index] == "" && used == 0; offered != want {
			h.t.Errorf("%s: %08X is offered: %v; foreign %q, pulled %v, partition %q, used %d", h.name, index, offered,
				slot.ForeignID, pulled, owner[index], used)
		}
		if p.ID == "" && (used > 0 || owner[index] != "") {
			h.t.Errorf("%s: %08X has a partition and no provider", h.name, index)
		}
		if offered {
			offers++
		}
	}
	if offers < simSlots/2 {
		h.t.Errorf("%s: only %d slots are offered", h.name, offers)
	}
	for name := range tree {
		if !strings.Contains(name, h.name) {
			h.t.Errorf("%s has the provider %s", h.name, name)
		}
	}
}

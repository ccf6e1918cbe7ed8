package plan_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/plan"
)

// fleet is one host with its guests.
type fleet struct {
	room    numa.Host
	devices []plan.Device // all, with Fits by model: of one of the requests of any guest
	guests  []resident
}

// resident is a guest that is on the host.
type resident struct {
	guest   plan.Guest
	placed  []numa.Placed
	devices []int // of fleet.devices
}

// flavor is a guest with the models that each of its requests accepts.
type flavor struct {
	plan.Guest
	models [][]bool
}

// free returns what is free for a guest, and the index in f.devices of each free device. A card that is used is free in
// parts at most, and one that is used in parts not as a whole.
func (f *fleet) free(of flavor) (h plan.Host, index []int) {
	h.Room = f.room
	used, whole, parts := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, g := range f.guests {
		h.Room.Cells = numa.Use(h.Room.Cells, g.guest.Cells, g.placed)
		for _, i := range g.devices {
			used[i] = true
			if d := f.devices[i]; d.Card != plan.NoCard && d.Whole {
				whole[d.Card] = true
			} else if d.Card != plan.NoCard {
				parts[d.Card] = true
			}
		}
	}
	for i, d := range f.devices {
		if used[i] || d.Card != plan.NoCard && (whole[d.Card] || d.Whole && parts[d.Card]) {
			continue
		}
		fits := make([]bool, len(of.Requests))
		for r := range fits {
			fits[r] = slices.Contains(of.models[r], true) && of.models[r][modelOf(d)]
		}
		d.Fits = fits
		if d.Card != plan.NoCard && !d.Whole && !parts[d.Card] {
			d.Later = 1 // opened cards first
		}
		h.Devices, index = append(h.Devices, d), append(index, i)
	}
	return h, index
}

// models is how many models of devices a fleet has.
const models = 3

// modelOf returns the model of a device of a fleet.
func modelOf(d plan.Device) int { return slices.Index(d.Fits, true) }

// randomFleet returns a host without guests.
func randomFleet(rng *rand.Rand) *fleet {
	f := &fleet{room: randomRoom(rng)}
	f.devices = randomDevices(rng, f.room.Cells, plan.Guest{Requests: make([]plan.Request, models)})
	for i := range f.devices {
		d := &f.devices[i]
		d.Fits, d.Later = make([]bool, models), 0
		d.Fits[rng.IntN(models)] = true
	}
	return f
}

// randomFlavor returns a guest of one or two cells or none, with few devices.
func randomFlavor(rng *rand.Rand) (of flavor) {
	of.Guest = randomGuest(rng)
	of.Cells = of.Cells[:min(len(of.Cells), 2)]
	for r := range of.Requests {
		times := 1
		for _, s := range of.Sets {
			if slices.Contains(s.Requests, r) {
				times = max(s.Times, 1)
			}
		}
		of.Requests[r].Count = times
		accepts := make([]bool, models)
		accepts[rng.IntN(models)], accepts[rng.IntN(models)] = true, true
		of.models = append(of.models, accepts)
	}
	return of
}

// create plans a guest, checks the answer, and places the guest if it fits.
func (f *fleet) create(of flavor) (fits bool, err error) {
	h, index := f.free(of)
	p, refusal := plan.Make(h, of.Guest)
	if wrong := compare(h, of.Guest, p, refusal); wrong != "" {
		return false, fmt.Errorf("%s\n%d guests\nhost %+v\nguest %+v\nplan %+v\nrefusal %+v", wrong, len(f.guests), h,
			of.Guest, p, refusal)
	}
	if again, _ := plan.Make(h, of.Guest); !reflect.DeepEqual(p, again) {
		return false, fmt.Errorf("%+v, and the second time %+v", p, again)
	}
	if refusal != nil {
		return false, nil
	}
	in := resident{guest: of.Guest, placed: p.Placed}
	for _, list := range p.Devices {
		for _, i := range list {
			in.devices = append(in.devices, index[i])
		}
	}
	f.guests = append(f.guests, in)
	return true, nil
}

// overused returns what the guests of a host use twice, or "".
func (f *fleet) overused() string {
	used, way := map[int]bool{}, map[int]bool{}
	threads := map[int]bool{}
	memory := map[int]int{}
	for _, g := range f.guests {
		for _, i := range g.devices {
			d := f.devices[i]
			whole, is := way[d.Card]
			if used[i] || d.Card != plan.NoCard && is && whole != d.Whole {
				return fmt.Sprintf("device %d", i)
			}
			used[i], way[d.Card] = true, d.Whole
		}
		for i, at := range g.placed {
			memory[at.Node] += g.guest.Cells[i].MemoryMB
			for _, t := range at.CPUs {
				if threads[t] {
					return fmt.Sprintf("thread %d", t)
				}
				threads[t] = true
			}
		}
	}
	for _, c := range f.room.Cells {
		if memory[c.ID]+c.UsedMemory > c.MemoryMB {
			return fmt.Sprintf("the memory of node %d", c.ID)
		}
	}
	return ""
}

// TestSequencesAgreeWithTryingEverything creates and deletes guests of a few flavors on one host, in random order.
func TestSequencesAgreeWithTryingEverything(t *testing.T) {
	created, refused := 0, 0
	eachCase(t, *cases/20, func(rng *rand.Rand) error {
		f := randomFleet(rng)
		flavors := []flavor{randomFlavor(rng), randomFlavor(rng), randomFlavor(rng)}
		for range 12 {
			if n := len(f.guests); n > 0 && rng.IntN(3) == 0 {
				f.guests = slices.Delete(f.guests, 0, 1+rng.IntN(n))
				continue
			}
			fits, err := f.create(flavors[rng.IntN(len(flavors))])
			if err != nil {
				return err
			}
			if wrong := f.overused(); wrong != "" {
				return fmt.Errorf("used twice: %s by %+v", wrong, f.guests)
			}
			if fits {
				created++
			} else {
				refused++
			}
		}
		return nil
	})
	t.Logf("%d created, %d refused", created, refused)
	if least := (created + refused) * 15 / 100; *firstCase == 0 && (created < least || refused < least) {
		t.Errorf("%d created, %d refused: the cases are too similar", created, refused)
	}
}

// TestHeadroom creates equal guests until one is refused, on a host whose parts do not compete: what fits is the
// smallest of the counts of its parts, which are counted without Make.
func TestHeadroom(t *testing.T) {
	sizes := map[int]int{}
	eachCase(t, *cases/20, func(rng *rand.Rand) error {
		h, g, want := countable(rng)
		got := 0
		for ; got <= want; got++ {
			p, refusal := plan.Make(h, g)
			if refusal != nil {
				break
			}
			if len(g.Cells) > 0 {
				h.Room.Cells = numa.Use(h.Room.Cells, g.Cells, p.Placed)
			}
			gone := map[int]bool{}
			for _, list := range p.Devices {
				for _, i := range list {
					gone[i] = true
				}
			}
			var left []plan.Device
			for i, d := range h.Devices {
				if !gone[i] {
					left = append(left, d)
				}
			}
			h.Devices = left
		}
		if sizes[want]++; got != want {
			return fmt.Errorf("%d guests fit, want %d\nhost %+v\nguest %+v", got, want, h, g)
		}
		return nil
	})
	if *firstCase == 0 && len(sizes) < 5 {
		t.Errorf("headrooms %v: the cases are too similar", sizes)
	}
}

// countable returns a host and a guest with one cell or none, and how many of it fit: the sum over the nodes (or over
// the roots, if its devices must agree) of the smallest of what is there divided by what a guest needs.
func countable(rng *rand.Rand) (h plan.Host, g plan.Guest, want int) {
	nodes, gpus, vfs := 1+rng.IntN(4), 1+rng.IntN(2), rng.IntN(3)
	agree, placed := rng.IntN(2) == 0, rng.IntN(3) > 0
	g.Requests = []plan.Request{{Count: gpus, Policy: "required"}, {Count: vfs}, {Count: 0}}
	if placed {
		g.Cells = cells(1)
	}
	if agree {
		g.Sets = sets(root, 1, 0, 1)
	}
	h.Room = room(nodes)
	allGPUs, allVFs := 0, 0
	for n := range nodes {
		inNode := 0
		nodeGPUs, nodeVFs := 0, 0
		for r := range 1 + rng.IntN(3) {
			name := fmt.Sprint(n, ".", r)
			a, b := rng.IntN(4), rng.IntN(6)
			h.Devices = append(h.Devices, devices(a, 0, n, name)...)
			h.Devices = append(h.Devices, devices(b, 1, n, name)...)
			inNode += smaller(a/gpus, b, vfs)
			nodeGPUs, nodeVFs = nodeGPUs+a, nodeVFs+b
		}
		if !agree {
			inNode = smaller(nodeGPUs/gpus, nodeVFs, vfs)
		}
		h.Room.Cells[n].Dedicated = h.Room.Cells[n].Dedicated[:1+rng.IntN(8)]
		if placed {
			inNode = min(inNode, len(h.Room.Cells[n].Dedicated)/2)
		}
		want += inNode
		allGPUs, allVFs = allGPUs+nodeGPUs, allVFs+nodeVFs
	}
	if !placed && !agree {
		want = smaller(allGPUs/gpus, allVFs, vfs)
	}
	rng.Shuffle(len(h.Devices), func(i, j int) { h.Devices[i], h.Devices[j] = h.Devices[j], h.Devices[i] })
	return h, g, want
}

// smaller returns the smaller of count and have divided by need, if anything is needed.
func smaller(count, have, need int) int {
	if need == 0 {
		return count
	}
	return min(count, have/need)
}

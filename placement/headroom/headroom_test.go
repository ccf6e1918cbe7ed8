package headroom

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	count "github.com/openberth/berth/headroom"
	"github.com/openberth/berth/placement/candidate"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const gpu = resource.Class("CUSTOM_GPU")

// hostRows are the providers of a host, whose root is h.
type hostRows []index.Row

// add adds a provider of which these amounts are used.
func (f *hostRows) add(name, parent string, has, used resource.Amounts) *index.Row {
	row := index.Row{Provider: provider.Provider{ID: provider.ID(name), Name: name, Parent: provider.ID(parent), Root: "h",
		Inventories: map[resource.Class]resource.Inventory{}}, Used: used}
	for class, n := range has {
		row.Inventories[class] = resource.Whole(n)
	}
	*f = append(*f, row)
	return &(*f)[len(*f)-1]
}

// server is the request of a server with CPUs and devices of a class.
func server(cpus, devices int, class resource.Class, policy resource.Policy) resource.Ask {
	ask := resource.Ask{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": cpus}}}, GroupPolicy: policy}
	for i := range devices {
		ask.Groups = append(ask.Groups, resource.Group{Suffix: fmt.Sprint(i), Resources: resource.Amounts{class: 1}})
	}
	return ask
}

// Merging equal devices changes no number: neither with other amounts, traits and use of the devices, nor with groups
// that must not be merged.
func TestMergedDevices(t *testing.T) {
	rng := rand.New(rand.NewPCG(28, 1))
	merged, several := 0, 0
	for n := range 1000 {
		f := &hostRows{}
		f.add("h", "", resource.Amounts{"VCPU": 1 + rng.IntN(6), gpu: 1 + rng.IntN(2)}, nil)
		f.add("nic", "h", resource.Amounts{gpu: 1}, nil)
		f.add("card", "above", nil, nil)
		f.add("above", "h", nil, nil)
		if f.add("unused", "nic", nil, nil); rng.IntN(4) == 0 {
			(*f)[len(*f)-1].Traits = []resource.Trait{"CUSTOM_A"}
		}
		for i := range rng.IntN(5) {
			parent := []string{"h", "h", "card", "nic"}[rng.IntN(4)]
			p := f.add(fmt.Sprint("h_", i), parent, resource.Amounts{gpu: 1 + rng.IntN(3)},
				resource.Amounts{gpu: rng.IntN(2)})
			p.Root = "h"
			inv := p.Inventories[gpu]
			if inv.Reserved = rng.IntN(5) / 4; rng.IntN(6) == 0 {
				inv.MaxUnit = 1
			}
			if p.Inventories[gpu] = inv; rng.IntN(5) == 0 {
				p.Inventories["VCPU"] = resource.Whole(2)
			}
			if rng.IntN(3) == 0 {
				p.Traits = []resource.Trait{"CUSTOM_A"}
			}
		}
		ask := server(1, 1+rng.IntN(3), gpu, []resource.Policy{resource.PolicyNone, resource.PolicyIsolate}[rng.IntN(2)])
		change := &ask.Groups[1+rng.IntN(len(ask.Groups)-1)]
		switch rng.IntN(14) {
		case 0:
			change.Required = [][]resource.Trait{{"CUSTOM_A"}}
		case 1:
			change.Forbidden = []resource.Trait{"CUSTOM_A"}
		case 2:
			change.Resources = resource.Amounts{gpu: 2}
		case 3:
			change.Resources = resource.Amounts{gpu: 1, "VCPU": 1}
		case 4:
			ask.Groups[0].Resources[gpu] = 1 + rng.IntN(2)
		case 5:
			if len(ask.Groups) > 2 {
				ask.SameSubtree = [][]string{{"0", "1"}}
			}
		case 6:
			ask.Groups = append(ask.Groups, resource.Group{Suffix: "x", Required: [][]resource.Trait{{"CUSTOM_A"}}})
			ask.SameSubtree = [][]string{{"0", "x"}}
		}
		if len(Traits(ask)) == 0 { // a caller gives no others than those that the request names
			for i := range *f {
				(*f)[i].Traits = nil
			}
		}
		if merges(f, ask) {
			merged++
		}
		in := count.Input{Groups: ask.Groups, Free: resource.Allocation{}}
		all := newRows(*f, ask).plain(func(provider.ID) bool { return true })
		for _, row := range all {
			in.Free[row.ID] = resource.Amounts{}
			for class, inv := range row.Inventories {
				in.Free[row.ID][class] = inv.Capacity() - row.Used[class]
			}
		}
		for c := range candidate.Find(index.Build(all), ask, candidate.Options{}) {
			in.Candidates = append(in.Candidates, count.Candidate{Host: "h", Allocation: c.Allocation(), Mappings: c.Mappings()})
		}
		want, got := count.Count(in), Cloud{Rows: *f}.Count(ask)
		if got.Fits != want.Servers || !got.Exact || len(want.Hosts) > 0 && !slices.Equal(got.Hosts[0].Lacks,
			want.Hosts[0].First) {
			t.Fatalf("case %d: %+v, want %+v: %+v of %+v", n, got, want, ask, all)
		}
		if want.Servers > 1 {
			several++
		}
	}
	if merged < 100 || several < 200 {
		t.Errorf("%d cases with merged devices, %d with room for several servers", merged, several)
	}
}

// merges reports whether devices are merged for a request.
func merges(f *hostRows, ask resource.Ask) bool {
	all := func(provider.ID) bool { return true }
	offering := func(rows []index.Row) (n int) {
		for _, row := range rows {
			n += min(len(row.Inventories), 1)
		}
		return n
	}
	r := newRows(*f, ask)
	return offering(r.merged(all, false)) < offering(r.plain(all))
}

// A group may name a provider of a tree that has none of its classes.
func TestTreesOfAGroup(t *testing.T) {
	f := &hostRows{}
	f.add("h", "", resource.Amounts{"VCPU": 3}, nil)
	f.add("leaf", "h", nil, nil)
	ask := server(1, 0, "", "")
	for in, want := range map[provider.ID]int{"h": 3, "leaf": 3, "other": 0} {
		ask.Groups[0].InTree = in
		if got := (Cloud{Rows: *f}).Count(ask); got.Fits != want {
			t.Errorf("in the tree of %s: %+v", in, got)
		}
	}
}

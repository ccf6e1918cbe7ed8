package headroom

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ways returns the candidates of a server with two ports of kbit each, on two NICs.
func ways(host string, kbit int) (list []Candidate) {
	for _, nics := range [][2]string{{"0", "0"}, {"0", "1"}, {"1", "0"}, {"1", "1"}} {
		a := resource.Allocation{provider.ID(host): {"VCPU": 1}}
		for _, nic := range nics {
			bw, vf := provider.ID(host+"bw"+nic), provider.ID(host+"vf"+nic)
			if a[bw] == nil {
				a[bw], a[vf] = resource.Amounts{}, resource.Amounts{}
			}
			a[bw]["BW"] += kbit
			a[vf]["VF"]++
		}
		list = append(list, Candidate{Host: provider.ID(host), Allocation: a})
	}
	return list
}

// room returns what a host with two NICs has left.
func room(host string, cpus, vf0, bw0, vf1, bw1 int) resource.Allocation {
	at := func(name string) provider.ID { return provider.ID(host + name) }
	return resource.Allocation{at(""): {"VCPU": cpus}, at("vf0"): {"VF": vf0}, at("bw0"): {"BW": bw0},
		at("vf1"): {"VF": vf1}, at("bw1"): {"BW": bw1}}
}

func TestCount(t *testing.T) {
	for name, c := range map[string]struct {
		free resource.Allocation
		kbit int
		want Host
	}{
		"CPUs":                {room("h", 3, 8, 1000, 8, 1000), 100, Host{"h", 3, true, []resource.Class{"VCPU"}}},
		"VFs":                 {room("h", 9, 8, 1000, 8, 1000), 100, Host{"h", 8, true, []resource.Class{"VF"}}},
		"bandwidth":           {room("h", 9, 8, 400, 8, 300), 100, Host{"h", 3, true, []resource.Class{"BW"}}},
		"VFs and bandwidth":   {room("h", 9, 2, 200, 2, 200), 100, Host{"h", 2, true, []resource.Class{"BW", "VF"}}},
		"one VF on each NIC":  {room("h", 9, 1, 100, 3, 300), 100, Host{"h", 2, true, []resource.Class{"BW", "VF"}}},
		"split over the NICs": {room("h", 9, 8, 150, 0, 900), 100, Host{"h", 0, true, []resource.Class{"BW", "VF"}}},
	} {
		got := Count(ways("h", c.kbit), c.free)
		if len(got) != 1 || got[0].Fits != c.want.Fits || !got[0].Exact || !slices.Equal(got[0].Lacks, c.want.Lacks) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// The count equals that of an exhaustive search, and what remains serves no further server.
func TestCountIsTheLargest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		free := room("h", 1+rng.IntN(5), rng.IntN(6), rng.IntN(600), rng.IntN(6), rng.IntN(600))
		kbit := 50 + rng.IntN(150)
		before := fmt.Sprint(free)
		got := Count(ways("h", kbit), free)[0]
		if want := exhaustive(ways("h", kbit), clone(free)); got.Fits != want || !got.Exact || len(got.Lacks) == 0 {
			t.Fatalf("%v, %d: %+v, want %d", free, kbit, got, want)
		}
		if fmt.Sprint(free) != before {
			t.Fatal("the argument is changed")
		}
	}
}

func exhaustive(list []Candidate, left resource.Allocation) (best int) {
	for _, c := range list {
		if fitting(c.Allocation, left) > 0 {
			take(left, c.Allocation, 1)
			best = max(best, 1+exhaustive(list, left))
			take(left, c.Allocation, -1)
		}
	}
	return best
}

// Hosts are counted apart, the largest first.
func TestCountOfSeveralHosts(t *testing.T) {
	free := room("a", 1, 8, 1000, 8, 1000)
	for id, amounts := range room("b", 5, 8, 1000, 8, 1000) {
		free[id] = amounts
	}
	got := Count(append(ways("a", 100), ways("b", 100)...), free)
	if len(got) != 2 || got[0].Root != "b" || got[0].Fits != 5 || got[1].Fits != 1 {
		t.Errorf("%+v", got)
	}
}

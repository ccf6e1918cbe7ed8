package headroom

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	vf        = resource.Class("SRIOV_NET_VF")
	bandwidth = resource.Class("NET_BW_EGR_KILOBIT_PER_SEC")
)

// onNICs returns the request of a server with ports of this bandwidth each, and its candidates on NICs named
// "<host>/<nic>": each port has bandwidth and a VF of one NIC.
func onNICs(kbps int, ports int, free resource.Allocation, nics map[string][]provider.ID) Input {
	in := Input{Free: free}
	in.Groups = []resource.Group{{Resources: resource.Amounts{"VCPU": 1}}}
	for i := range ports {
		in.Groups = append(in.Groups,
			resource.Group{Suffix: fmt.Sprintf("bw%d", i), Resources: resource.Amounts{bandwidth: kbps}},
			resource.Group{Suffix: fmt.Sprintf("vf%d", i), Resources: resource.Amounts{vf: 1}})
	}
	for host, list := range nics {
		var choose func(picked []provider.ID)
		choose = func(picked []provider.ID) {
			if len(picked) < ports {
				for _, nic := range list {
					choose(append(picked[:len(picked):len(picked)], nic))
				}
				return
			}
			c := Candidate{Host: host, Allocation: resource.Allocation{provider.ID(host): {"VCPU": 1}},
				Mappings: map[string][]provider.ID{}}
			for i, nic := range picked {
				if c.Allocation[nic] == nil {
					c.Allocation[nic] = resource.Amounts{}
				}
				c.Allocation[nic][bandwidth] += kbps
				c.Allocation[nic][vf]++
				c.Mappings[fmt.Sprintf("bw%d", i)], c.Mappings[fmt.Sprintf("vf%d", i)] = []provider.ID{nic}, []provider.ID{nic}
			}
			in.Candidates = append(in.Candidates, c)
		}
		choose(nil)
	}
	in.Candidates = fitting(in.Candidates, free)
	return in
}

// fitting returns the candidates that fit once, as Placement does.
func fitting(all []Candidate, free resource.Allocation) (out []Candidate) {
	for _, c := range all {
		if fits(c.Allocation, free) {
			out = append(out, c)
		}
	}
	return out
}

func fits(a, free resource.Allocation) bool {
	for id, amounts := range a {
		for class, n := range amounts {
			if free[id][class] < n {
				return false
			}
		}
	}
	return true
}

func TestCountOnNICs(t *testing.T) {
	two := map[string][]provider.ID{"h": {"h/1", "h/2"}}
	room := func(cpus, vf1, bw1, vf2, bw2 int) resource.Allocation {
		return resource.Allocation{"h": {"VCPU": cpus}, "h/1": {vf: vf1, bandwidth: bw1}, "h/2": {vf: vf2, bandwidth: bw2}}
	}
	for _, c := range []struct {
		what        string
		kbps, ports int
		free        resource.Allocation
		servers     int
		first       []resource.Class
	}{
		{"VFs run out before bandwidth", 1, 1, room(64, 8, 10, 8, 10), 16, []resource.Class{vf}},
		{"bandwidth runs out before VFs", 4, 1, room(64, 8, 10, 8, 10), 4, []resource.Class{bandwidth}},
		{"both at once", 1, 1, room(64, 8, 8, 8, 8), 16, []resource.Class{bandwidth, vf}},
		{"CPUs first", 1, 1, room(3, 8, 10, 8, 10), 3, []resource.Class{"VCPU"}},
		{"VFs and bandwidth are free on different NICs", 1, 1, room(64, 1, 10, 8, 1), 2, nil},
		{"two ports on one NIC", 5, 2, room(64, 8, 10, 0, 0), 1, []resource.Class{bandwidth}},
		{"two ports across NICs of odd bandwidth", 2, 2, room(64, 8, 3, 8, 5), 1, []resource.Class{bandwidth}},
		{"nothing", 11, 1, room(64, 8, 10, 8, 10), 0, nil},
	} {
		got := Count(onNICs(c.kbps, c.ports, c.free, two))
		if got.Servers != c.servers || got.AtMost != c.servers {
			t.Errorf("%s: %d to %d servers, want %d", c.what, got.Servers, got.AtMost, c.servers)
		}
		if c.servers == 0 {
			continue
		}
		if len(got.Hosts) != 1 || got.Hosts[0].Servers != c.servers || !reflect.DeepEqual(got.Hosts[0].First, c.first) {
			t.Errorf("%s: %+v, want first %v", c.what, got.Hosts, c.first)
		}
	}
}

func TestCountOfSeveralHosts(t *testing.T) {
	free := resource.Allocation{"a": {"VCPU": 2}, "a/1": {vf: 8, bandwidth: 10},
		"b": {"VCPU": 64}, "b/1": {vf: 3, bandwidth: 10}}
	got := Count(onNICs(1, 1, free, map[string][]provider.ID{"a": {"a/1"}, "b": {"b/1"}}))
	want := Result{Servers: 5, AtMost: 5,
		Hosts:   []Host{{"a", 2, []resource.Class{"VCPU"}}, {"b", 3, []resource.Class{vf}}},
		Classes: []Class{{bandwidth, 20, 0}, {vf, 11, 1}, {"VCPU", 66, 1}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A request that has nothing in common between the devices of a host counts on each, and the host once.
func TestCountOfSeparateDevices(t *testing.T) {
	in := Input{Groups: []resource.Group{{Resources: resource.Amounts{vf: 2}}},
		Free: resource.Allocation{"a/1": {vf: 4}, "a/2": {vf: 5}, "b/1": {vf: 2}}}
	for id := range in.Free {
		in.Candidates = append(in.Candidates, Candidate{Host: string(id)[:1],
			Allocation: resource.Allocation{id: {vf: 2}}})
	}
	want := Result{Servers: 5, AtMost: 5, Hosts: []Host{{"a", 4, []resource.Class{vf}}, {"b", 1, []resource.Class{vf}}},
		Classes: []Class{{vf, 5, 2}}}
	if got := Count(in); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Hosts with a sharing provider compete for it.
func TestCountWithSharingProvider(t *testing.T) {
	in := Input{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1, "DISK_GB": 10}}},
		Free: resource.Allocation{"a": {"VCPU": 4}, "b": {"VCPU": 4}, "s": {"DISK_GB": 55}}}
	for _, host := range []provider.ID{"a", "b"} {
		in.Candidates = append(in.Candidates, Candidate{Host: string(host),
			Allocation: resource.Allocation{host: {"VCPU": 1}, "s": {"DISK_GB": 10}}})
	}
	got := Count(in)
	if got.Servers != 5 || len(got.Hosts) != 2 || !reflect.DeepEqual(got.Hosts[0].First, []resource.Class{"DISK_GB"}) {
		t.Errorf("%+v", got)
	}
}

// A host with storage of its own leaves the shared storage to one without.
func TestCountLeavesSharedStorage(t *testing.T) {
	own := resource.Allocation{"a": {"VCPU": 1, "DISK_GB": 10}}
	shared := func(host provider.ID) resource.Allocation {
		return resource.Allocation{host: {"VCPU": 1}, "s": {"DISK_GB": 10}}
	}
	in := Input{Groups: []resource.Group{{Resources: resource.Amounts{"VCPU": 1, "DISK_GB": 10}}},
		Free: resource.Allocation{"a": {"VCPU": 1, "DISK_GB": 10}, "b": {"VCPU": 1}, "s": {"DISK_GB": 10}},
		Candidates: []Candidate{{Host: "a", Allocation: shared("a")}, {Host: "a", Allocation: own},
			{Host: "b", Allocation: shared("b")}}}
	if got := Count(in); got.Servers != 2 || got.AtMost != 2 {
		t.Errorf("%+v", got)
	}
}

// Random requests on random NICs: claiming in every possible order never places more servers, and some order places as
// many.
func TestCountAgainstEveryOrderOfClaims(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 4))
	several := 0
	for n := range 400 {
		free, nics := resource.Allocation{}, map[string][]provider.ID{}
		for h := range 1 + rng.IntN(2) {
			host := fmt.Sprint("h", h)
			free[provider.ID(host)] = resource.Amounts{"VCPU": 1 + rng.IntN(5)}
			for i := range 1 + rng.IntN(3) {
				nic := provider.ID(fmt.Sprint(host, "/", i))
				free[nic] = resource.Amounts{vf: rng.IntN(4), bandwidth: rng.IntN(9)}
				nics[host] = append(nics[host], nic)
			}
		}
		in := onNICs(1+rng.IntN(3), 1+rng.IntN(2), free, nics)
		want := mostByClaims(in.Candidates, free, map[string]int{})
		if got := Count(in); got.Servers != want || got.AtMost != want {
			t.Fatalf("case %d: %d to %d servers, want %d: free %v, %d candidates", n, got.Servers, got.AtMost, want, free,
				len(in.Candidates))
		}
		if want > 1 {
			several++
		}
	}
	if several < 100 {
		t.Errorf("only %d cases have room for several servers", several)
	}
}

// mostByClaims returns the largest number of claims in a row, over all orders.
func mostByClaims(all []Candidate, free resource.Allocation, met map[string]int) int {
	key := fmt.Sprint(free)
	if most, known := met[key]; known {
		return most
	}
	most := 0
	for _, c := range all {
		if !fits(c.Allocation, free) {
			continue
		}
		rest := resource.Allocation{}
		for id, amounts := range free {
			rest[id] = maps.Clone(amounts)
			for class, n := range c.Allocation[id] {
				rest[id][class] -= n
			}
		}
		most = max(most, 1+mostByClaims(all, rest, met))
	}
	met[key] = most
	return most
}

// A part that is too large for the search has bounds.
func TestBudgetOfTheSearch(t *testing.T) {
	free, nics := resource.Allocation{"h": {"VCPU": 1000}}, map[string][]provider.ID{}
	for i := range 12 {
		nic := provider.ID(fmt.Sprint("h/", i))
		free[nic] = resource.Amounts{vf: 3 + 7*(i%2), bandwidth: 25 + i*13}
		nics["h"] = append(nics["h"], nic)
	}
	in := onNICs(5, 2, free, nics)
	p := newProblem(in.Candidates, in, "", 1000)
	s := p.solve()
	if p.work > 0 || s.servers == 0 || s.servers > s.atMost {
		t.Errorf("%+v", s)
	}
	if full := Count(in); full.Servers < s.servers || full.AtMost > s.atMost {
		t.Errorf("%+v within %+v", full, s)
	}
}

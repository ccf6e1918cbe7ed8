package schedule_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const (
	nic  = "1515"
	disk = "0a54"
)

func choose(p schedule.Input, requests ...pci.Request) ([]schedule.Choice, string) {
	if p.Now.IsZero() {
		p.Now, p.Silence = noon, 3*time.Minute
	}
	choices, refusals := schedule.Choose(p, requests, 1)
	return choices, schedule.Summarise(refusals)
}

func TestDevicesAreJudgedOnTheChosenProvider(t *testing.T) {
	two := host("h", slices.Concat(devices("pf1", nic, 0, 2), devices("pf2", disk, 2, 2))...)
	for _, c := range []struct {
		name     string
		on       []provider.ID
		requests []pci.Request
		refused  string
	}{
		{"one device", []provider.ID{"pf1"}, []pci.Request{request(nic, 1)}, ""},
		{"two on one provider", []provider.ID{"pf1", "pf1"}, []pci.Request{request(nic, 2)}, ""},
		{"three on a provider of two", []provider.ID{"pf1", "pf1", "pf1"}, []pci.Request{request(nic, 3)},
			"1 host: fewer than 3 free type-VF 8086:1515 on the chosen provider (nearest: it has 2)"},
		// The host has two matching devices, but not on the provider that Placement chose.
		{"the other provider", []provider.ID{"pf2"}, []pci.Request{request(nic, 1)},
			"1 host: no free type-VF 8086:1515 on the chosen provider (nearest: one is free, but product is 0a54, not 1515)"},
		{"one fits, one not", []provider.ID{"pf1", "pf2"}, []pci.Request{request(nic, 2)},
			"1 host: no free type-VF 8086:1515 on the chosen provider (nearest: one is free, but product is 0a54, not 1515)"},
		{"any product of a class", []provider.ID{"pf2"},
			[]pci.Request{{ID: "R", Count: 1, Requirement: pci.Requirement{Class: "CUSTOM_X"}}}, ""},
		// Without pci_in_placement there are no groups, and any device of the host is accepted.
		{"without groups", nil, []pci.Request{request(nic, 2)}, ""},
		{"too many without groups", nil, []pci.Request{request(nic, 3)}, "1 host: fewer than 3 free type-VF 8086:1515 on " +
			"the host (nearest: it has 2; one is free, but product is 0a54, not 1515)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			choices, why := choose(schedule.Input{Hosts: hosts(two), Candidates: []schedule.Candidate{candidate("h", c.on...)}},
				c.requests...)
			if why != c.refused || (len(choices) == 1) != (c.refused == "") {
				t.Errorf("%d choices, refused %q, want %q", len(choices), why, c.refused)
			}
		})
	}
}

// TestRequestsOnOneProviderAreFittedTogether checks that a request that accepts several devices does not take the only
// device of another request, in any order of the requests.
func TestRequestsOnOneProviderAreFittedTogether(t *testing.T) {
	mixed := host("h", device(0, "pf", nic), device(1, "pf", disk))
	wide := pci.Request{ID: "W", Count: 1, Requirement: pci.Requirement{Class: "CUSTOM_X"}}
	narrow := pci.Request{ID: "N", Count: 1, Requirement: pci.Requirement{Vendor: "8086", Product: nic}}
	c := schedule.Candidate{Root: "root-h", Mappings: map[string][]provider.ID{"W-0": {"pf"}, "N-0": {"pf"}}}
	for _, order := range [][]pci.Request{{wide, narrow}, {narrow, wide}} {
		if choices, why := choose(schedule.Input{Hosts: hosts(mixed), Candidates: []schedule.Candidate{c}},
			order...); len(choices) != 1 {
			t.Errorf("%s first: %s", order[0].ID, why)
		}
	}
}

func TestOnlyFreeDevicesCount(t *testing.T) {
	state := func(s pci.State, holder resource.ConsumerID) pci.Offered {
		d := device(0, "pf", nic)
		d.State, d.Holder = s, holder
		return d
	}
	held := device(0, "pf", nic).Address.String()
	guest := func(g schedule.Guest, devices ...pci.Offered) schedule.Host {
		h := host("h", devices...)
		h.Guests = []schedule.Guest{g}
		return h
	}
	asked := request(nic, 1)
	asked.ID, asked.Providers = "Q", []provider.ID{"pf"}
	for _, c := range []struct {
		name string
		host schedule.Host
		fits bool
	}{
		{"available", host("h", state(pci.Available, "")), true},
		{"claimed", host("h", state(pci.Claimed, "s1")), false},
		{"unavailable", host("h", state("unavailable", "")), false},
		{"given to a guest after the report", guest(schedule.Guest{ID: "s1", Devices: []schedule.Picked{{Address: held}}},
			device(0, "pf", nic)), false},
		{"another device was given to a guest",
			guest(schedule.Guest{ID: "s1", Devices: []schedule.Picked{{Address: "0000:00:1f.7"}}},
				device(0, "pf", nic)), true},
		{"a guest will get it", guest(schedule.Guest{ID: "s1", Requests: []pci.Request{asked}}, device(0, "pf", nic)),
			false},
		{"a guest will get one of two", guest(schedule.Guest{ID: "s1", Requests: []pci.Request{asked}},
			devices("pf", nic, 0, 2)...), true},
		{"the report contains the device of the guest", guest(schedule.Guest{ID: "s1", Requests: []pci.Request{asked}},
			state(pci.Allocated, "s1"), device(1, "pf", nic)), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			choices, why := choose(schedule.Input{Hosts: hosts(c.host), Candidates: []schedule.Candidate{candidate("h", "pf")}},
				request(nic, 1))
			if (len(choices) == 1) != c.fits {
				t.Errorf("%d choices, %s", len(choices), why)
			}
		})
	}
}

func TestUnusableHostsAreRefused(t *testing.T) {
	silent := host("silent")
	silent.Seen = noon.Add(-5*time.Minute - time.Second)
	p := schedule.Input{
		Hosts:       hosts(silent, host("tried"), host("lost"), host("full1"), host("full2"), host("full3")),
		FailedHosts: map[string]string{"tried": "no hugepages"},
		Lacking:     map[string]bool{"lost": true, "silent": true},
		Candidates: []schedule.Candidate{candidate("silent"), candidate("tried"), candidate("lost"), candidate("unknown"),
			candidate("full1"), candidate("full1"), candidate("full2"), candidate("full3")},
	}
	choices, why := choose(p, request(nic, 1))
	want := "3 hosts: no free type-VF 8086:1515 on the host; 1 host: " + schedule.LacksAllocations + "; " +
		"1 host: its agent has not reported for 5 min; " +
		"1 host: no agent has reported for this root provider; " +
		"1 host: the server failed there before: no hugepages"
	if len(choices) != 0 || why != want {
		t.Errorf("%d choices; got\n%s\nwant\n%s", len(choices), why, want)
	}
}

func TestHostsWithDevicesAreKeptForServersThatNeedThem(t *testing.T) {
	many, few, none := host("many", devices("pm", nic, 0, 4)...), host("few", devices("pf", nic, 0, 1)...), host("none")
	many.Load, few.Load, none.Load = 0.1, 0.5, 0.9
	candidates := []schedule.Candidate{candidate("many"), candidate("few"), candidate("none")}
	names := func(choices []schedule.Choice) string {
		var list []string
		for _, c := range choices {
			list = append(list, c.Host)
		}
		return strings.Join(list, " ")
	}
	for seed := range uint64(20) {
		p := schedule.Input{Hosts: hosts(many, few, none), Candidates: candidates, Now: noon, Silence: time.Minute}
		// Without requested devices, hosts with devices come last, whatever the load of the others.
		if got, _ := schedule.Choose(p, nil, seed); names(got) != "none few many" {
			t.Fatalf("seed %d: no devices: %s", seed, names(got))
		}
		// With requested devices, the host with the lower load comes first.
		if got, _ := schedule.Choose(p, []pci.Request{request(nic, 1)}, seed); names(got) != "many few" {
			t.Fatalf("seed %d: devices: %s", seed, names(got))
		}
	}
}

func TestChoicesAlternateOverHostsAndAreBounded(t *testing.T) {
	var p schedule.Input
	a, b := host("a"), host("b")
	for i := range 40 {
		on := provider.ID(fmt.Sprintf("pa%d", i))
		a.Devices = append(a.Devices, device(i, on, nic))
		p.Candidates = append(p.Candidates, candidate("a", on))
	}
	b.Devices = append(devices("pb0", nic, 0, 1), devices("pb1", nic, 1, 1)...)
	p.Candidates = append(p.Candidates, candidate("b", "pb0"), candidate("b", "pb1"))
	p.Hosts, p.Now, p.Silence = hosts(a, b), noon, time.Minute
	choices, _ := schedule.Choose(p, []pci.Request{request(nic, 1)}, 7)
	if len(choices) != schedule.MaxChoices {
		t.Fatalf("%d choices", len(choices))
	}
	if choices[0].Host == choices[1].Host || choices[2].Host == choices[3].Host || choices[4].Host != "a" ||
		choices[15].Host != "a" {
		t.Errorf("hosts do not alternate: %v", choices)
	}
	seen := map[provider.ID]bool{}
	for _, c := range choices {
		if on := c.Mappings["R-0"][0]; seen[on] {
			t.Errorf("%s twice", on)
		} else {
			seen[on] = true
		}
	}
}

// TestChoicesDependOnSeedOnly checks that the same seed yields the same choices, and that other seeds begin with other
// candidates, so that concurrent servers do not compete for one device.
func TestChoicesDependOnSeedOnly(t *testing.T) {
	var p schedule.Input
	h := host("h")
	for i := range 16 {
		on := provider.ID(fmt.Sprintf("p%d", i))
		h.Devices = append(h.Devices, device(i, on, nic))
		p.Candidates = append(p.Candidates, candidate("h", on))
	}
	p.Hosts, p.Now, p.Silence = hosts(h), noon, time.Minute
	first := map[provider.ID]bool{}
	for seed := range uint64(50) {
		one, _ := schedule.Choose(p, []pci.Request{request(nic, 1)}, seed)
		two, _ := schedule.Choose(p, []pci.Request{request(nic, 1)}, seed)
		if one[0].Mappings["R-0"][0] != two[0].Mappings["R-0"][0] {
			t.Fatalf("seed %d: two calls returned different choices", seed)
		}
		first[one[0].Mappings["R-0"][0]] = true
	}
	if len(first) < 8 {
		t.Errorf("50 seeds begin with only %d of 16 candidates", len(first))
	}
}

// TestCandidatesOfOneHostAreJudgedSeparately checks that only the suitable candidates of a host are accepted. The
// second of them is the fallback for the first.
func TestCandidatesOfOneHostAreJudgedSeparately(t *testing.T) {
	h := withCells(host("h", testDevice(1, pci.Plain, "1533", "p0", 0), testDevice(2, pci.Plain, "1533", "p1", 1),
		testDevice(3, pci.Plain, "1533", "p2", 1)), node(0, 0, 0), node(1, 1, 2))
	r := withPolicy(pci.Required, requestFor(1, "", "1533"))
	r.ID = "R"
	p := schedule.Input{Hosts: hosts(h), Cells: guest(1), Now: noon, Silence: schedule.Silence,
		Candidates: []schedule.Candidate{candidate("h", "p0"), candidate("h", "p1"), candidate("h", "p2")}}
	choices, refusals := schedule.Choose(p, []pci.Request{r}, 1)
	on := map[provider.ID]bool{}
	for _, c := range choices {
		on[c.Mappings["R-0"][0]] = true
	}
	if !maps.Equal(on, map[provider.ID]bool{"p1": true, "p2": true}) || len(refusals) != 1 {
		t.Errorf("%v %v", choices, refusals)
	}
	want := "1 host: no free device 8086:1533 near enough to the guest's NUMA nodes (numa_policy required) (nearest: " +
		"the guest fits on node 1, a device is on node 0)"
	if got := schedule.Summarise(refusals); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestOrderOfHostsByFreeDevicesAndLoad checks that hosts with fewer free devices that the server cannot use come first,
// then hosts with lower load.
func TestOrderOfHostsByFreeDevicesAndLoad(t *testing.T) {
	many := host("many", slices.Concat(card(1, "m", 0, false, 8), card(2, "n", 0, false, 4))...)
	some := host("some", card(1, "s", 0, false, 1)...)
	none, busy := host("none"), host("busy")
	busy.Load = 0.9
	gpus := host("gpus", append(card(1, "g", 0, false, 1), testDevice(9, pci.Plain, "1533", "gpu", 0))...)
	unreliable := map[string]bool{}
	order := func(requests []pci.Request, list ...schedule.Host) (names []string) {
		p := schedule.Input{Hosts: hosts(list...), Now: noon, Silence: schedule.Silence, Unreliable: unreliable}
		for _, h := range list {
			p.Candidates = append(p.Candidates, candidate(h.Name))
		}
		for seed := range uint64(8) {
			choices, _ := schedule.Choose(p, requests, seed)
			var round []string
			for _, c := range choices {
				round = append(round, c.Host)
			}
			if names != nil && !slices.Equal(names, round) {
				t.Errorf("the order depends on the seed: %v or %v", names, round)
			}
			names = round
		}
		return names
	}
	if got := order(nil, many, busy, some, none); !slices.Equal(got, []string{"none", "busy", "some", "many"}) {
		t.Errorf("without devices: %v", got)
	}
	vf := requestFor(1, pci.Virtual, "1515")
	vf.ID = "R"
	many.Load, some.Load = 0.1, 0.5
	if got := order([]pci.Request{vf}, gpus, some, many); !slices.Equal(got, []string{"many", "some", "gpus"}) {
		t.Errorf("with devices: %v, want the host with a GPU last", got)
	}
	unreliable["many"] = true
	if got := order([]pci.Request{vf}, gpus, some, many); !slices.Equal(got, []string{"some", "gpus", "many"}) {
		t.Errorf("with devices: %v, want the host on which a guest has failed last", got)
	}
}

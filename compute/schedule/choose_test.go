package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const (
	nic  = "1515"
	disk = "0a54"
)

// device returns a free VF on a provider; n determines its address.
func device(n int, on provider.ID, product string) schedule.Device {
	return schedule.Device{
		Device: pci.Device{Address: pci.Address{Bus: 0x80, Slot: uint8(n / 8), Func: uint8(n % 8)}, Vendor: "8086",
			Product: product, Type: pci.Virtual},
		Provider: on, State: schedule.Available,
	}
}

func devices(on provider.ID, product string, first, count int) (list []schedule.Device) {
	for i := range count {
		list = append(list, device(first+i, on, product))
	}
	return list
}

func host(name string, devices ...schedule.Device) schedule.Host {
	return schedule.Host{Name: name, Provider: provider.ID("root-" + name), Seen: noon, Devices: devices}
}

func hosts(list ...schedule.Host) map[provider.ID]schedule.Host {
	out := map[provider.ID]schedule.Host{}
	for _, h := range list {
		out[h.Provider] = h
	}
	return out
}

// candidate returns a candidate that maps the groups and so on to providers.
func candidate(hostName string, providers ...provider.ID) schedule.Candidate {
	c := schedule.Candidate{Root: provider.ID("root-" + hostName),
		Mappings: map[string][]provider.ID{"": {provider.ID("root-" + hostName)}}}
	for i, p := range providers {
		c.Mappings[fmt.Sprintf("R-%d", i)] = []provider.ID{p}
	}
	return c
}

func request(product string, count int) pci.Request {
	return pci.Request{ID: "R", Alias: "nic", Count: count, Requirement: pci.Requirement{Vendor: "8086", Product: product,
		Type: pci.Virtual}}
}

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
	state := func(s schedule.State, holder string) schedule.Device {
		d := device(0, "pf", nic)
		d.State, d.Holder = s, holder
		return d
	}
	held := device(0, "pf", nic).Address.String()
	guest := func(g schedule.Guest, devices ...schedule.Device) schedule.Host {
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
		{"available", host("h", state(schedule.Available, "")), true},
		{"claimed", host("h", state(schedule.Claimed, "s1")), false},
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
			state(schedule.Allocated, "s1"), device(1, "pf", nic)), true},
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

func TestSummariseIsBounded(t *testing.T) {
	var list []schedule.Refusal
	for i := range 30 {
		list = append(list, schedule.Refusal{Host: "h", Reason: fmt.Sprintf("reason %02d", i)})
	}
	if got := schedule.Summarise(list); !strings.HasSuffix(got, "1 host: reason 07; and 22 more reasons") {
		t.Errorf("got %s", got)
	}
	if got := schedule.Summarise(nil); got != "" {
		t.Errorf("without refusals: %q", got)
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

// TestFitAgreesWithExhaustiveSearch compares Choose with a search of all assignments of devices to slots.
func TestFitAgreesWithExhaustiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	products, providers := []string{nic, disk}, []provider.ID{"p0", "p1"}
	fits := 0
	for n := range 3000 {
		h := host("h")
		for i := range rng.IntN(5) {
			h.Devices = append(h.Devices, device(i, providers[rng.IntN(2)], products[rng.IntN(2)]))
		}
		c := schedule.Candidate{Root: "root-h", Mappings: map[string][]provider.ID{}}
		var requests []pci.Request
		for i := range 1 + rng.IntN(3) {
			r := pci.Request{ID: fmt.Sprint(i), Count: 1 + rng.IntN(2)}
			if rng.IntN(2) == 0 {
				r.Requirement.Product = products[rng.IntN(2)]
			}
			for k := range r.Count {
				c.Mappings[r.GroupSuffix(k)] = []provider.ID{providers[rng.IntN(2)]}
			}
			requests = append(requests, r)
		}
		choices, why := choose(schedule.Input{Hosts: hosts(h), Candidates: []schedule.Candidate{c}}, requests...)
		want := someAssignmentFits(h.Devices, requests, c.Mappings, 0, 0, map[int]bool{})
		if want {
			fits++
		}
		if (len(choices) == 1) != want {
			t.Fatalf("case %d: chosen %v (%s), exhaustive search: %v", n, len(choices) == 1, why, want)
		}
	}
	if fits < 300 || fits > 2700 {
		t.Errorf("%d of 3000 cases fit, want 300 to 2700", fits)
	}
}

// someAssignmentFits tries all devices for the remaining slots.
func someAssignmentFits(devices []schedule.Device, requests []pci.Request, m map[string][]provider.ID, r, i int,
	used map[int]bool) bool {
	if r == len(requests) {
		return true
	}
	if i == requests[r].Count {
		return someAssignmentFits(devices, requests, m, r+1, 0, used)
	}
	for n, d := range devices {
		if used[n] || d.Provider != m[requests[r].GroupSuffix(i)][0] || (requests[r].Requirement.Product != "" &&
			requests[r].Requirement.Product != d.Product) {
			continue
		}
		used[n] = true
		if someAssignmentFits(devices, requests, m, r, i+1, used) {
			return true
		}
		delete(used, n)
	}
	return false
}

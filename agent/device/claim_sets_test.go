package device

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// gpusAndVFs returns three VFs of one PF and two GPUs. GPU 0 is in the IOMMU group of VF 2, GPU 1 in one of its own.
func gpusAndVFs() (list []Offer) {
	list = card(0x81, 3, "card")
	for n := range list {
		list[n].IOMMUGroup = 10 + n
	}
	for n := range 2 {
		o := plain
		o.Device.Address.Slot, o.Provider = uint8(n), resource.ProviderID([]string{"gpu0", "gpu1"}[n])
		o.IOMMUGroup = []int{12, 20}[n]
		o.Properties = pci.Properties{"fabric": {"pair"}}
		list = append(list, o)
	}
	return list
}

// TestClaimSets tests requests whose devices must have a value in common, with the providers that Placement has chosen
// and without.
func TestClaimSets(t *testing.T) {
	offers := gpusAndVFs()
	vf, gpu := request(offers[0], 1), request(plain, 1)
	match := func(r pci.Request, count int, m pci.Match, providers ...resource.ProviderID) pci.Request {
		r.Count, r.Match, r.Providers = count, &m, providers
		return r
	}
	group := pci.Match{Set: 1, Family: pci.GroupFamily, Times: 1}
	whole := pci.Match{Set: 1, Family: "fabric", Times: 1, Whole: true}
	each := pci.Match{Set: 1, Family: pci.GroupFamily, Times: 2}
	for _, c := range []struct {
		name     string
		requests []pci.Request
		want     string // the devices, or a part of the refusal
	}{
		{"the VF of the group", []pci.Request{match(vf, 1, group, "card"), match(gpu, 1, group, "gpu0")}, "81:00.3 82:00.0"},
		{"without providers", []pci.Request{match(vf, 1, group), match(gpu, 1, group)}, "81:00.3 82:00.0"},
		{"another GPU", []pci.Request{match(vf, 1, group, "card"), match(gpu, 1, group, "gpu1")},
			"alias a do not have one iommu_group in common"},
		{"a set of each VF", []pci.Request{match(vf, 2, each, "card", "card")}, "81:00.1 81:00.2"},
		{"two VFs of one group", []pci.Request{match(vf, 2, group, "card", "card")}, "do not have one iommu_group in common"},
		{"two sets", []pci.Request{match(vf, 2, each), match(gpu, 2, each)}, "fewer than 2 sets"},
		{"all GPUs", []pci.Request{match(gpu, 2, whole)}, "82:00.0 82:01.0"},
		{"not all GPUs", []pci.Request{match(gpu, 1, whole)}, "no fabric has exactly 1 devices"},
		{"too many VFs", []pci.Request{match(vf, 4, group)}, "the host has no free 8086:1515 type-VF"},
	} {
		s := New(offers)
		next, picked, refusal := s.ClaimAll("s1", c.requests, Near{})
		if refusal != "" {
			if !strings.Contains(string(refusal), c.want) {
				t.Errorf("%s: refused: %s; want %s", c.name, refusal, c.want)
			}
			continue
		}
		if got := addresses(picked); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if _, again, _ := next.ClaimAll("s1", c.requests, Near{}); addresses(again) != c.want {
			t.Errorf("%s: the second claim has %s", c.name, addresses(again))
		}
	}
}

// TestMatchedSets tests which value the devices of a guest have in common: that of a whole set, and of each of several
// sets. Families that are no property of the operator are left out.
func TestMatchedSets(t *testing.T) {
	var offers []Offer
	for n := range 6 {
		o := plain
		o.Device.Address.Slot, o.Provider = uint8(n), resource.ProviderID(fmt.Sprint("gpu", n))
		o.IOMMUGroup, o.Properties = n, pci.Properties{"fabric": {fmt.Sprint("p2-", n/2), fmt.Sprint("p4-", n/4)}}
		offers = append(offers, o)
	}
	sets := func(count int, m pci.Match) (Set, []pci.Request) {
		r := request(plain, 1)
		r.Count, r.Match = count, &m
		s, _, refusal := New(offers).ClaimAll("s1", []pci.Request{r}, Near{})
		if refusal != "" {
			t.Fatal(refusal)
		}
		return s, []pci.Request{r}
	}
	for _, c := range []struct {
		count int
		match pci.Match
		want  string
	}{
		{4, pci.Match{Set: 1, Family: "fabric", Times: 1, Whole: true}, "p4-0 4"},
		{4, pci.Match{Set: 1, Family: "fabric", Times: 2, Whole: true}, "p2-0 2 p2-2 2"},
		{1, pci.Match{Set: 1, Family: "fabric", Times: 1}, "p2-2 1"},
		{1, pci.Match{Set: 1, Family: pci.GroupFamily, Times: 1}, ""},
	} {
		s, requests := sets(c.count, c.match)
		found, refusal := s.MatchedSets("s1", requests)
		var got []string
		for _, one := range found {
			got = append(got, fmt.Sprint(one.Value, " ", len(one.Devices)))
		}
		if strings.Join(got, " ") != c.want || refusal != "" {
			t.Errorf("%+v: %v %s, want %s", c.match, got, refusal, c.want)
		}
	}
	s, requests := sets(2, pci.Match{Set: 1, Family: "fabric", Times: 1})
	requests[0].Match.Family = "tray" // the configuration has changed
	if _, refusal := s.MatchedSets("s1", requests); !strings.Contains(string(refusal), "no tray in common any more") {
		t.Error(refusal)
	}
}

// TestClaimsInSets tests that the claims of each request are in the order of the sets: the GPUs of even numbers are of
// one set, and the VF of the other set is the first one.
func TestClaimsInSets(t *testing.T) {
	offers := card(0x81, 2, "card")
	offers[0].Properties, offers[1].Properties = pci.Properties{"tray": {"b"}}, pci.Properties{"tray": {"a"}}
	for n := range 4 {
		o := plain
		o.Device.Address.Slot, o.Provider = uint8(n), resource.ProviderID(fmt.Sprint("gpu", n))
		o.Properties = pci.Properties{"tray": {string(rune('a' + n%2))}}
		offers = append(offers, o)
	}
	match := &pci.Match{Set: 1, Family: "tray", Times: 2}
	vf, gpu, other := request(offers[0], 1), request(plain, 2), request(plain, 3)
	vf.Count, vf.Match, gpu.Count, gpu.Match = 2, match, 4, match
	s, _, refusal := New(offers).ClaimAll("s1", []pci.Request{vf, gpu}, Near{})
	if refusal != "" {
		t.Fatal(refusal)
	}
	held := s.Held("s1")
	if got := addresses(s.InSets("s1", []pci.Request{vf, gpu, other}, held)); got !=
		"81:00.2 81:00.1 82:00.0 82:02.0 82:01.0 82:03.0" {
		t.Errorf("%s; by address %s", got, addresses(held))
	}
	vf.Match, gpu.Match = nil, nil
	if got := addresses(s.InSets("s1", []pci.Request{vf, gpu}, held)); got != addresses(held) {
		t.Errorf("without sets: %s", got)
	}
}

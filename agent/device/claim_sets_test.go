package device

import (
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

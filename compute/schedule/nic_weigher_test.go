package schedule_test

import (
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// Ports with a guarantee get the NIC with the smaller share of allocated bandwidth, ports without one the NIC without
// bandwidth, otherwise the most exhausted one; on one host and between hosts.
func TestNICWeigher(t *testing.T) {
	const egress = resource.Class("NET_BW_EGR_KILOBIT_PER_SEC")
	nics := map[provider.ID]schedule.NIC{
		"bw0": {Bandwidth: map[resource.Class]schedule.Room{egress: {Capacity: 1000, Used: 800}}}, "vf0": {Parent: "bw0"},
		"bw1": {Bandwidth: map[resource.Class]schedule.Room{egress: {Capacity: 1000, Used: 100}}}, "vf1": {Parent: "bw1"},
		"vf2": {Parent: "root"},
	}
	candidate := func(root, nic string, kbit int) schedule.Candidate {
		vf := provider.ID("vf" + nic)
		c := schedule.Candidate{Root: provider.ID(root), Allocation: resource.Allocation{vf: {"SRIOV_NET_VF": 1}},
			Mappings: map[string][]provider.ID{"vf": {vf}}}
		if kbit > 0 {
			bw := provider.ID("bw" + nic)
			c.Allocation[bw], c.Mappings["bw"] = resource.Amounts{egress: kbit}, []provider.ID{bw}
		}
		return c
	}
	now := time.Unix(1000, 0)
	hosts := map[provider.ID]schedule.Host{"h1": {Name: "h1", Seen: now}, "h2": {Name: "h2", Seen: now}}
	for name, c := range map[string]struct {
		candidates []schedule.Candidate
		want       []provider.ID // the VF providers of the choices
	}{
		"guaranteed, one host": {[]schedule.Candidate{candidate("h1", "0", 50), candidate("h1", "1", 50)},
			[]provider.ID{"vf1", "vf0"}},
		"guaranteed, two hosts": {[]schedule.Candidate{candidate("h1", "0", 50), candidate("h2", "1", 50)},
			[]provider.ID{"vf1", "vf0"}},
		"no guarantee": {[]schedule.Candidate{candidate("h1", "1", 0), candidate("h1", "0", 0), candidate("h1", "2", 0)},
			[]provider.ID{"vf2", "vf0", "vf1"}},
		"no guarantee, two hosts": {[]schedule.Candidate{candidate("h1", "1", 0), candidate("h2", "0", 0)},
			[]provider.ID{"vf0", "vf1"}},
	} {
		for seed := range uint64(20) {
			choices, refusals := schedule.Choose(schedule.Input{Candidates: c.candidates, Hosts: hosts, NICs: nics, Now: now,
				Silence: time.Minute}, nil, seed)
			var got []provider.ID
			for _, choice := range choices {
				got = append(got, choice.Mappings["vf"][0])
			}
			if len(got) != len(c.want) || got[0] != c.want[0] || got[len(got)-1] != c.want[len(got)-1] {
				t.Errorf("%s, seed %d: %v, want %v (%v)", name, seed, got, c.want, refusals)
			}
		}
	}
}

package view

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// The page of a server has what it holds beside what others hold, and what the nearest hosts lack.
func TestAllocationAndMisses(t *testing.T) {
	s := &fleet.Snapshot{Servers: []fleet.Server{{ID: "s1", Name: "web"}}, Providers: []fleet.Provider{
		{Provider: provider.Provider{ID: "h", Name: "h", Root: "h", Inventories: map[resource.Class]resource.Inventory{
			"VCPU": resource.Whole(8), "MEMORY_MB": resource.Whole(100)}},
			Held: map[resource.ConsumerID]resource.Amounts{"s1": {"VCPU": 2, "MEMORY_MB": 150}, "s2": {"VCPU": 4}}},
		{Provider: provider.Provider{ID: "gpu", Name: "h_0000:18:00.0", Root: "h", Parent: "h",
			Inventories: map[resource.Class]resource.Inventory{"CUSTOM_GPU": resource.Whole(1)}}}}}
	report := host.Report{Host: "h", Provider: "h", Cells: []host.Cell{{ID: 0, Dedicated: []int{2, 3}, Pinned: []int{2}},
		{ID: 1}}}
	c := New(Source{Fleet: fleet.NewView(s), Reports: []host.Report{report}})
	why := &compute.Why{Search: &compute.WhySearch{Nearest: []compute.WhyMiss{{Host: "h", Deficits: []compute.WhyDeficit{
		{Class: "CUSTOM_GPU", Asks: 2, Free: 1, Of: 1, Text: "asks 2 of s1"}, {Cause: "a filter", Text: "is too far"},
		{Cause: numaFilter, Text: "has no room"}}}}}}
	p := c.Server(ServerSource{Server: compute.Server{ID: "s1"}, Why: why})
	want := []AllocationRow{
		{Provider: "h", Host: "h", Class: "MEMORY_MB", Amount: "150", InUse: "150 of 100", Own: 1000},
		{Provider: "h", Host: "h", Class: "VCPU", Amount: "2", InUse: "6 of 8", Others: 500, Own: 250}}
	if !reflect.DeepEqual(p.Allocation, want) {
		t.Errorf("%+v", p.Allocation)
	}
	miss := p.Nearest[0]
	if miss.HostName != (HostName{"h", true}) || len(miss.Lacks) != 3 || len(miss.Lacks[0].Cells) != 1 ||
		*miss.Lacks[0].Need != (NeedBar{500, 0, 1000, "CUSTOM_GPU: 2 needed, 1 of 1 free"}) ||
		miss.Lacks[1].Need != nil || miss.Lacks[1].Cells != nil {
		t.Errorf("%+v", miss)
	}
	if nodes := miss.Lacks[2].Nodes; len(nodes) != 1 || nodes[0].CPUs.Text != "1/2 pinned" {
		t.Errorf("the NUMA nodes of the host: %+v", nodes)
	}
	var none *Cloud
	p = none.Server(ServerSource{Server: compute.Server{ID: "s1"}, Why: why})
	if p.Allocation != nil || p.Nearest[0].Link || p.Nearest[0].Lacks[0].Need == nil {
		t.Errorf("without the cloud: %+v", p)
	}
}

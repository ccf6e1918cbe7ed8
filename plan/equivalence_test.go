package plan_test

import (
	"slices"
	"testing"

	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/plan"
)

// of returns a device that all requests can use, with a value of the families a and b.
func of(a, b string, near ...int) plan.Device {
	d := plan.Device{Fits: []bool{true, true}, Near: near, Card: plan.NoCard, Values: map[string][]string{}}
	for family, v := range map[string]string{"a": a, "b": b} {
		if v != "" {
			d.Values[family] = []string{v}
		}
	}
	return d
}

// TestEquivalentValues tests values that look alike, of which only one can be used.
func TestEquivalentValues(t *testing.T) {
	one := []plan.Set{{Family: "a", Requests: []int{0}}}
	two := append(slices.Clone(one), plan.Set{Family: "a", Requests: []int{1}})
	other := append(slices.Clone(one), plan.Set{Family: "b", Requests: []int{1}})
	onlySecond := of("", "x")
	onlySecond.Fits = []bool{false, true}
	for _, c := range []struct {
		name    string
		devices []plan.Device
		guest   plan.Guest
		want    [][]int
	}{
		{"the first value is near, where the other request needs it", []plan.Device{of("x", "", 0), of("y", "", 1)},
			plan.Guest{Nodes: []int{0}, Sets: one, Requests: []plan.Request{{Count: 1, Policy: pci.Preferred},
				{Count: 1, Policy: pci.Required}}}, [][]int{{1}, {0}}},
		{"the first value has more devices, which the other set needs", []plan.Device{of("x", ""), of("x", ""), of("x", ""),
			of("y", ""), of("y", "")}, plan.Guest{Sets: two, Requests: []plan.Request{{Count: 2}, {Count: 3}}},
			[][]int{{3, 4}, {0, 1, 2}}},
		{"the first value was chosen for the other set", []plan.Device{of("x", ""), of("y", "")},
			plan.Guest{Sets: two, Requests: []plan.Request{{Count: 1}, {Count: 1}}}, [][]int{{0}, {1}}},
		{"a device of the first value agrees with one without", []plan.Device{of("x", "x"), of("y", "y"), onlySecond},
			plan.Guest{Sets: other, Requests: []plan.Request{{Count: 1}, {Count: 2}}}, [][]int{{1}, {0, 2}}},
		{"more devices of the first rank before a smaller sum of ranks", []plan.Device{of("y", ""), of("y", ""),
			of("y", ""), of("x", "", 0), of("x", "", 1), of("x", "", 1)}, plan.Guest{Nodes: []int{0}, Sets: one,
			Requests: []plan.Request{{Count: 3, Policy: pci.Preferred}, {}}}, [][]int{{3, 4, 5}, nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, refusal := plan.Make(plan.Host{Devices: c.devices}, c.guest)
			if refusal != nil {
				t.Fatalf("%+v", refusal)
			}
			for r, want := range c.want {
				if !slices.Equal(p.Devices[r], want) {
					t.Errorf("devices %v, want %v", p.Devices, c.want)
				}
			}
		})
	}
}

// TestEquivalentNodes tests nodes that look alike, of which only one can be used.
func TestEquivalentNodes(t *testing.T) {
	both := devices(1, 0, 0, "")[0]
	both.Near = []int{0, 1}
	for _, c := range []struct {
		name    string
		free    []int // by node: threads; the nodes with the most are tried first
		cells   int
		devices []plan.Device
		counts  []int
		policy  pci.NUMAPolicy
		want    []int
	}{
		{"only node 1 is on the socket of the device", []int{0, 4, 8, 8}, 1, devices(1, 0, 0, ""), []int{1}, pci.Socket,
			[]int{1}},
		{"nodes 2 and 1 have no device, and node 1 is on the socket of one", []int{0, 6, 8, 4}, 2,
			append(devices(1, 0, 0, ""), devices(1, 1, 3, "")...), []int{1, 1}, pci.Socket, []int{1, 3}},
		{"nodes 0 and 1 share a device", []int{8, 7, 6, 5}, 3,
			append(append([]plan.Device{both}, devices(1, 0, 2, "")...), devices(1, 1, 3, "")...), []int{2, 1},
			pci.Required, []int{0, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := plan.Host{Room: room(4), Devices: c.devices}
			for n, free := range c.free {
				h.Room.Cells[n].Dedicated = h.Room.Cells[n].Dedicated[:free]
			}
			p, refusal := plan.Make(h, plan.Guest{Cells: cells(c.cells), Requests: requests(c.policy, c.counts...)})
			if refusal != nil {
				t.Fatalf("%+v", refusal)
			}
			var nodes []int
			for _, at := range p.Placed {
				nodes = append(nodes, at.Node)
			}
			if slices.Sort(nodes); !slices.Equal(nodes, c.want) {
				t.Errorf("nodes %v, want %v", nodes, c.want)
			}
		})
	}
}

package device

import (
	"strings"
	"testing"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// TestNear tests the NUMA policies: the guest is on node 1; socket 0 has nodes 0 and 1, socket 1 has 2 and 3. Nodes 4
// and 5 are the memory of GPUs near nodes 1 and 2.
func TestNear(t *testing.T) {
	near := Near{Nodes: []int{1}, Host: append(nodesOnSockets(0, 0, 1, 1),
		numa.Node{ID: 4, Distances: map[int]int{0: 120, 1: 80, 2: 120, 3: 120}},
		numa.Node{ID: 5, Distances: map[int]int{0: 120, 1: 120, 2: 80, 3: 120}})}
	for _, c := range []struct {
		policy pci.NUMAPolicy
		node   int
		want   bool
	}{
		{pci.Required, -1, false}, {pci.Required, 0, false}, {pci.Required, 1, true},
		{pci.Legacy, -1, true}, {pci.Legacy, 0, false}, {pci.Legacy, 1, true}, {"", 0, false}, {"", -1, true},
		{pci.Preferred, -1, true}, {pci.Preferred, 0, true}, {pci.Preferred, 1, true}, {pci.Preferred, 3, true},
		{pci.Socket, -1, false}, {pci.Socket, 0, true}, {pci.Socket, 1, true}, {pci.Socket, 2, false},
		{pci.Required, 4, true}, {pci.Required, 5, false}, {pci.Legacy, 4, true}, {pci.Legacy, 5, false},
		{pci.Socket, 4, true}, {pci.Socket, 5, false}, {pci.Preferred, 5, true},
	} {
		o := plain
		o.Device.NUMANode = c.node
		r := request(o, 1)
		r.Policy = c.policy
		_, picked, refusal := New([]Offer{o}).ClaimAll("s1", []pci.Request{r}, near)
		if (refusal == "") != c.want || (len(picked) == 1) != c.want {
			t.Errorf("%q, device on node %d: %q", c.policy, c.node, refusal)
		}
		if _, _, refusal := New([]Offer{o}).Claim("s1", r); refusal != "" {
			t.Errorf("%q, a guest without nodes: %q", c.policy, refusal)
		}
	}
	// The nearest devices are picked first, then the lowest addresses, each once.
	var offers []Offer
	for i, node := range []int{0, -1, 1, 1} {
		o := plain
		o.Device.Address.Slot, o.Device.NUMANode = uint8(i), node
		offers = append(offers, o)
	}
	r := request(plain, 3)
	r.Policy = pci.Preferred
	_, picked, refusal := New(offers).ClaimAll("s1", []pci.Request{r}, near)
	if addresses(picked) != "82:01.0 82:02.0 82:03.0" || refusal != "" {
		t.Errorf("%s %s", addresses(picked), refusal)
	}
}

// The devices on the guest's node are selected first, then those without a node, then the others, as the policy
// allows.
func TestPolicyWithSeveralDevices(t *testing.T) {
	var offers []Offer
	for i, node := range []int{0, 1, pci.NoNUMA, 1} {
		o := plain
		o.Device.Address.Slot, o.Device.NUMANode = uint8(i), node
		if i == 3 {
			o.Device.Vendor = "8086"
		}
		offers = append(offers, o)
	}
	const here, other, none, foreign = "82:00.0", "82:01.0", "82:02.0", "82:03.0"
	for _, c := range []struct {
		policy pci.NUMAPolicy
		count  int
		node   int
		vendor string
		want   string // empty: refused
	}{
		{pci.Required, 1, 0, "10de", here}, {pci.Required, 1, 9, "10de", ""}, {pci.Required, 2, 0, "10de", ""},
		{pci.Legacy, 1, 0, "10de", here}, {pci.Legacy, 1, 9, "10de", none}, {pci.Legacy, 2, 0, "10de", here + " " + none},
		{pci.Legacy, 1, 0, "8086", ""},
		{pci.Preferred, 1, 0, "10de", here}, {pci.Preferred, 1, 9, "10de", none},
		{pci.Preferred, 2, 0, "10de", here + " " + none},
		{pci.Preferred, 1, 0, "8086", foreign}, {pci.Preferred, 3, 0, "10de", here + " " + other + " " + none},
		{pci.Preferred, 4, 0, "10de", ""},
	} {
		r := pci.Request{ID: "r", Count: c.count, Policy: c.policy, Requirement: pci.Requirement{Vendor: c.vendor}}
		_, picked, refusal := New(offers).ClaimAll("s1", []pci.Request{r}, Near{Nodes: []int{c.node},
			Host: nodesOnSockets(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)})
		if addresses(picked) != c.want || (refusal == "") != (c.want != "") {
			t.Errorf("%s, %d of %s for node %d: %s %s, want %s", c.policy, c.count, c.vendor, c.node, addresses(picked),
				refusal, c.want)
		}
	}
}

// nodesOnSockets returns a node with CPUs for each socket.
func nodesOnSockets(sockets ...int) (list numa.Topology) {
	for id, s := range sockets {
		list = append(list, numa.Node{ID: id, CPUs: true, Socket: s})
	}
	return list
}

// A refusal names the place of the device, and what is nearest to it.
func TestRefusalNamesTheNearestNodes(t *testing.T) {
	o := plain
	o.Device.NUMANode = 2
	r := request(o, 1)
	r.Policy = pci.Required
	host := append(nodesOnSockets(0, 1), numa.Node{ID: 2, Distances: map[int]int{0: 120, 1: 40}})
	_, _, refusal := New([]Offer{o}).ClaimAll("s1", []pci.Request{r}, Near{Nodes: []int{0}, Host: host})
	const want = "it is on node 2 without CPUs (nearest node with CPUs: 1, distance 40), which policy required does not " +
		"allow for a guest on [0]"
	if !strings.Contains(string(refusal), want) {
		t.Errorf("%s", refusal)
	}
}

// A guest without devices avoids the nodes near free devices, also if the devices are on nodes without CPUs.
func TestGuestsWithoutDevicesAvoidNodesNearDevices(t *testing.T) {
	o := plain
	o.Device.NUMANode = 2
	nodes := append(nodesOnSockets(0, 0), numa.Node{ID: 2, Distances: map[int]int{0: 40, 1: 80}})
	for gpu, want := range map[bool]int{true: 1, false: 0} {
		var offers []Offer
		if gpu {
			offers = append(offers, o)
		}
		cell := func(id int) numa.Cell { return numa.Cell{ID: id, CPUs: []int{10 * id}, MemoryMB: 64} }
		_, _, placed, refusal := New(offers).Place("s1", nil, []numa.GuestCell{{VCPUs: []int{0}, MemoryMB: 64}}, nil,
			numa.Host{Cells: []numa.Cell{cell(0), cell(1)}, Nodes: nodes})
		if refusal != "" || placed[0].Node != want {
			t.Errorf("with a device %t: on %v, want node %d; %s", gpu, placed, want, refusal)
		}
	}
}

package device

import (
	"testing"

	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
)

// TestNear tests the NUMA policies: the guest is on node 1; socket 0 has nodes 0 and 1, socket 1 has 2 and 3.
func TestNear(t *testing.T) {
	near := Near{Nodes: []int{1}, Cells: []numa.Cell{{ID: 0, Socket: 0}, {ID: 1, Socket: 0}, {ID: 2, Socket: 1},
		{ID: 3, Socket: 1}}}
	for _, c := range []struct {
		policy pci.NUMAPolicy
		node   int
		want   bool
	}{
		{pci.Required, -1, false}, {pci.Required, 0, false}, {pci.Required, 1, true},
		{pci.Legacy, -1, true}, {pci.Legacy, 0, false}, {pci.Legacy, 1, true}, {"", 0, false}, {"", -1, true},
		{pci.Preferred, -1, true}, {pci.Preferred, 0, true}, {pci.Preferred, 1, true}, {pci.Preferred, 3, true},
		{pci.Socket, -1, false}, {pci.Socket, 0, true}, {pci.Socket, 1, true}, {pci.Socket, 2, false},
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
		_, picked, refusal := New(offers).ClaimAll("s1", []pci.Request{r}, Near{Nodes: []int{c.node}})
		if addresses(picked) != c.want || (refusal == "") != (c.want != "") {
			t.Errorf("%s, %d of %s for node %d: %s %s, want %s", c.policy, c.count, c.vendor, c.node, addresses(picked),
				refusal, c.want)
		}
	}
}

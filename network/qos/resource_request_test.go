package qos

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/resource"
)

const (
	port  = "f02f160e-1612-11ec-b2b8-bf60ab98186c"
	rule1 = "8bf8eb46-160e-11ec-8024-9f96be32099d"
	rule2 = "6ac5db7e-1626-11ec-8c7f-0b70dbb8a8eb"
)

func TestGroupIDGolden(t *testing.T) {
	for _, c := range []struct {
		want  string
		rules []string
	}{
		{"c8bc1b27-59a1-5135-aa33-aeecad6093f4", []string{rule1}},
		{"995008f4-f120-547a-b051-428b89076067", []string{rule2}},
		{"5c69c98f-4775-538a-817b-43f7fe6755d7", []string{rule1, rule2}},
		{"1f0e12e9-0dfe-5ce5-aa65-ab5a49dc734b", []string{rule2, rule1}},
		{"f1fe1c8e-a0e5-59fb-b845-3eb83ea9fb02", nil},
	} {
		if got := GroupID(port, c.rules); got != c.want {
			t.Errorf("%v: %s, want %s", c.rules, got, c.want)
		}
	}
}

func bw(direction string, min int) Rule { return Rule{rule1, MinimumBandwidth, direction, min} }
func pps(direction string, min int) Rule {
	return Rule{rule2, MinimumPacketRate, direction, min}
}

// TestRequest has the rows Q1 to Q10 of docs/behaviour/network.md.
func TestRequest(t *testing.T) {
	ids := map[Type]string{MinimumBandwidth: "c8bc1b27-59a1-5135-aa33-aeecad6093f4",
		MinimumPacketRate: "995008f4-f120-547a-b051-428b89076067"}
	bwGroup := func(trait string, a resource.Amounts) Group {
		return Group{ID: ids[MinimumBandwidth], Type: MinimumBandwidth, Resources: a,
			Required: []resource.Trait{resource.Trait(trait), "CUSTOM_VNIC_TYPE_NORMAL"}}
	}
	ppsGroup := func(a resource.Amounts) Group {
		return Group{ID: ids[MinimumPacketRate], Type: MinimumPacketRate, Resources: a,
			Required: []resource.Trait{"CUSTOM_VNIC_TYPE_NORMAL"}}
	}
	const phys, tunnel = "CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_NETWORK_TUNNEL_PROVIDER"
	egress := resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 1000}
	packets := resource.Amounts{"NET_PACKET_RATE_KILOPACKET_PER_SEC": 500}
	for _, c := range []struct {
		name     string
		segments []string
		rules    []Rule
		want     []Group
	}{
		{"Q1 bandwidth", []string{"physnet0"}, []Rule{bw("egress", 1000)}, []Group{bwGroup(phys, egress)}},
		{"Q2 packet rate", []string{"physnet0"}, []Rule{pps("any", 500)}, []Group{ppsGroup(packets)}},
		{"Q2 packet rates by direction", []string{"physnet0"}, []Rule{pps("egress", 5)},
			[]Group{ppsGroup(resource.Amounts{"NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC": 5})}},
		{"Q3 both, bandwidth first", []string{"physnet0"}, []Rule{pps("any", 500), bw("egress", 1000)},
			[]Group{bwGroup(phys, egress), ppsGroup(packets)}},
		{"Q4 other rules", []string{"physnet0"}, []Rule{{rule1, BandwidthLimit, "egress", 0}, {rule2, DSCPMarking, "", 0}},
			nil},
		{"Q4 no rules", []string{"physnet0"}, nil, nil},
		{"Q5 overlay", []string{""}, []Rule{bw("egress", 1000)}, []Group{bwGroup(tunnel, egress)}},
		{"Q6 both on an overlay", []string{""}, []Rule{bw("egress", 1000), pps("any", 500)},
			[]Group{bwGroup(tunnel, egress), ppsGroup(packets)}},
		{"Q8 no segments", nil, []Rule{bw("egress", 1000), pps("any", 500)}, []Group{ppsGroup(packets)}},
		{"zero stays", []string{"physnet0"}, []Rule{bw("egress", 0)},
			[]Group{bwGroup(phys, resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 0})}},
		{"several segments", []string{"physnet0", "physnet1", "physnet0"}, []Rule{bw("egress", 1000)},
			[]Group{{ID: ids[MinimumBandwidth], Type: MinimumBandwidth, Resources: egress,
				Required: []resource.Trait{"CUSTOM_VNIC_TYPE_NORMAL"},
				AnyOf:    []resource.Trait{phys, "CUSTOM_PHYSNET_PHYSNET1"}}}},
		{"Q10 the first segment without a physical network", []string{"", "physnet0"}, []Rule{bw("egress", 1000)},
			[]Group{{ID: ids[MinimumBandwidth], Type: MinimumBandwidth, Resources: egress,
				Required: []resource.Trait{"CUSTOM_VNIC_TYPE_NORMAL"}, AnyOf: []resource.Trait{tunnel, phys}}}},
		{"Q10 the second one without", []string{"physnet0", ""}, []Rule{bw("egress", 1000)},
			[]Group{{ID: ids[MinimumBandwidth], Type: MinimumBandwidth, Resources: egress,
				Required: []resource.Trait{"CUSTOM_VNIC_TYPE_NORMAL"}, AnyOf: []resource.Trait{phys, tunnel}}}},
		{"several segments, one physical network", []string{"physnet0", "Physnet0"}, []Rule{bw("egress", 1000)},
			[]Group{bwGroup(phys, egress)}},
	} {
		got := Request(Port{ID: port, VNICType: "normal", PhysicalNetworks: c.segments}, c.rules)
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

// TestRequestDoesNotDependOnTheOrderOfRules: a database may return rules in any order.
func TestRequestDoesNotDependOnTheOrderOfRules(t *testing.T) {
	p := Port{ID: port, VNICType: "direct", PhysicalNetworks: []string{"physnet0"}}
	a, b := bw("egress", 1), Rule{rule2, MinimumBandwidth, "ingress", 2}
	first, second := Request(p, []Rule{a, b}), Request(p, []Rule{b, a})
	if !reflect.DeepEqual(first, second) || len(first) != 1 || len(first[0].Resources) != 2 {
		t.Errorf("%+v\n%+v", first, second)
	}
}

func TestEffective(t *testing.T) {
	for _, c := range [][3]string{{"", "", ""}, {"p", "", "p"}, {"", "n", "n"}, {"p", "n", "p"}} {
		if got := Effective(c[0], c[1]); got != c[2] {
			t.Errorf("%v: %q", c, got)
		}
	}
}

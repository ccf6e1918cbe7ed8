package portrequest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

const (
	port      = "f02f160e-1612-11ec-b2b8-bf60ab98186c"
	bandGroup = "c8bc1b27-59a1-5135-aa33-aeecad6093f4"
	rateGroup = "995008f4-f120-547a-b051-428b89076067"
)

func traits(lists ...string) (out [][]resource.Trait) {
	for _, list := range lists {
		out = append(out, ParseRequired(list))
	}
	return out
}

// guaranteed is a port with a guaranteed bandwidth and packet rate.
func guaranteed(vnic string, networks ...string) Port {
	return Port{ID: port, VNICType: vnic, PhysicalNetworks: networks, SameSubtree: []string{bandGroup, rateGroup},
		Groups: []Group{
			{bandGroup, traits("CUSTOM_PHYSNET_A", "CUSTOM_VNIC_TYPE_NORMAL"),
				resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 1000}},
			{rateGroup, traits("CUSTOM_VNIC_TYPE_NORMAL"), resource.Amounts{"NET_PACKET_RATE_KILOPACKET_PER_SEC": 500}},
		}}
}

func TestGuaranteesOfANormalPort(t *testing.T) {
	got, err := Make([]Port{guaranteed("normal", "a")}, Options{DevicesInPlacement: true})
	want := Request{Groups: []resource.Group{
		{Suffix: bandGroup, Resources: resource.Amounts{"NET_BW_EGR_KILOBIT_PER_SEC": 1000},
			Required: traits("CUSTOM_PHYSNET_A", "CUSTOM_VNIC_TYPE_NORMAL")},
		{Suffix: rateGroup, Resources: resource.Amounts{"NET_PACKET_RATE_KILOPACKET_PER_SEC": 500},
			Required: traits("CUSTOM_VNIC_TYPE_NORMAL")},
	}, SameSubtrees: [][]string{{rateGroup, bandGroup}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Each vnic type has its class; the group requires the physical network and the vnic type, and is in one subtree with
// the bandwidth.
func TestDevicesOfPorts(t *testing.T) {
	for vnic, class := range map[string]resource.Class{"direct": "SRIOV_NET_VF", "macvtap": "SRIOV_NET_VF",
		"virtio-forwarder": "SRIOV_NET_VF", "remote-managed": "SRIOV_NET_VF",
		"direct-physical": "CUSTOM_PCI_NETDEV", "vdpa": "CUSTOM_VDPA_NETDEV"} {
		p := guaranteed(vnic, "a", "b", "a")
		p.Groups = p.Groups[:1]
		p.SameSubtree = p.SameSubtree[:1]
		p.NUMAPolicy, p.Trusted = "required", true
		got, err := Make([]Port{p}, Options{DevicesInPlacement: true})
		if err != nil || len(got.Devices) != 1 || len(got.Groups) != 2 {
			t.Fatalf("%s: %+v, %v", vnic, got, err)
		}
		device, group := got.Devices[0], got.Groups[1]
		want := resource.Group{Suffix: device.GroupSuffix(0), Resources: resource.Amounts{class: 1},
			Required: [][]resource.Trait{
				{"CUSTOM_PHYSNET_A", "CUSTOM_PHYSNET_B"},
				{resource.Trait("CUSTOM_VNIC_TYPE_" + strings.ToUpper(strings.ReplaceAll(vnic, "-", "_")))}}}
		if !reflect.DeepEqual(group, want) {
			t.Errorf("%s: %+v, want %+v", vnic, group, want)
		}
		if subtree := [][]string{{device.GroupSuffix(0), bandGroup}}; !reflect.DeepEqual(sorted(got.SameSubtrees),
			sorted(subtree)) {
			t.Errorf("%s: %v, want %v", vnic, got.SameSubtrees, subtree)
		}
		needs := pci.PortNeeds{ID: port, PhysicalNetworks: []string{"a", "b", "a"}, Trusted: true,
			RemoteManaged: vnic == "remote-managed"}
		if remote := slices.Equal(got.RootRequired, []resource.Trait{RemotePorts}); remote != needs.RemoteManaged {
			t.Errorf("%s: root %v", vnic, got.RootRequired)
		}
		if device.Count != 1 || device.Policy != pci.Required || !reflect.DeepEqual(*device.Port, needs) ||
			!reflect.DeepEqual(device.Requirement, pci.Requirement{Class: class}) {
			t.Errorf("%s: %+v %+v", vnic, device, device.Port)
		}
	}
}

// sorted returns lists of two texts with the smaller one first.
func sorted(lists [][]string) (out [][]string) {
	for _, l := range lists {
		if len(l) == 2 && l[1] < l[0] {
			l = []string{l[1], l[0]}
		}
		out = append(out, l)
	}
	return out
}

func TestPortWithoutGuarantee(t *testing.T) {
	p := Port{ID: port, VNICType: "direct", PhysicalNetworks: []string{""}}
	counted, err := Make([]Port{p}, Options{DevicesInPlacement: true})
	if err != nil || len(counted.Groups) != 1 || len(counted.SameSubtrees) != 0 ||
		counted.Groups[0].Required[0][0] != "CUSTOM_NETWORK_TUNNEL_PROVIDER" {
		t.Errorf("%+v, %v", counted, err)
	}
	uncounted, err := Make([]Port{p}, Options{})
	if err != nil || len(uncounted.Groups) != 0 || !reflect.DeepEqual(uncounted.Devices, counted.Devices) {
		t.Errorf("%+v, %v", uncounted, err)
	}
	if none, err := Make([]Port{{ID: port, VNICType: "normal"}}, Options{}); err != nil ||
		!reflect.DeepEqual(none, Request{}) {
		t.Errorf("%+v, %v", none, err)
	}
}

// Remote-managed ports are served by hosts with one trait, whether or not Placement counts devices. The traits that the
// flavor requires of the root stay.
func TestHostsOfRemoteManagedPorts(t *testing.T) {
	p := Port{ID: port, VNICType: "remote-managed", PhysicalNetworks: []string{""}}
	q := p
	q.ID = "6b4a2cd6-1612-11ec-b2b8-bf60ab98186c"
	for _, counted := range []bool{false, true} {
		request, err := Make([]Port{p, q}, Options{DevicesInPlacement: counted})
		if err != nil {
			t.Fatal(err)
		}
		ask, err := Add(resource.Ask{RootRequired: []resource.Trait{"HW_CPU_HYPERTHREADING"}}, request)
		if err != nil || !slices.Equal(ask.RootRequired, []resource.Trait{"HW_CPU_HYPERTHREADING", RemotePorts}) {
			t.Errorf("%v %v", ask.RootRequired, err)
		}
		if again, err := Add(resource.Ask{RootRequired: ask.RootRequired}, request); err != nil ||
			len(again.RootRequired) != 2 {
			t.Errorf("%v %v", again.RootRequired, err)
		}
	}
}

// The format before the extension port-resource-request-groups has one group without an id: the suffix is the port's.
func TestOlderFormat(t *testing.T) {
	p := guaranteed("normal", "a")
	p.Groups[0].ID, p.Groups, p.SameSubtree = "", p.Groups[:1], nil
	got, err := Make([]Port{p}, Options{})
	if err != nil || len(got.Groups) != 1 || got.Groups[0].Suffix != port || len(got.SameSubtrees) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A group without amounts requests nothing.
func TestAmountsOfZeroRequestNothing(t *testing.T) {
	for _, amounts := range []resource.Amounts{{"NET_BW_EGR_KILOBIT_PER_SEC": 0}, {}, nil} {
		p := guaranteed("normal", "a")
		p.Groups[0].Resources = amounts
		got, err := Make([]Port{p}, Options{})
		if err != nil || len(got.Groups) != 1 || got.Groups[0].Suffix != rateGroup || len(got.SameSubtrees) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestVNICTypesOfOtherServices(t *testing.T) {
	for _, vnic := range []string{"baremetal", "accelerator-direct", "unknown"} {
		if _, err := Make([]Port{{ID: port, VNICType: vnic}}, Options{}); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), vnic) {
			t.Errorf("%s: %v", vnic, err)
		}
	}
}

func TestParseRequired(t *testing.T) {
	if got := traits("A", "in:B, C"); !reflect.DeepEqual(got, [][]resource.Trait{{"A"}, {"B", "C"}}) {
		t.Errorf("%v", got)
	}
}

// The policy of the flavor is kept; otherwise it is PolicyNone with two or more groups with a suffix, and unset with
// fewer.
func TestGroupPolicy(t *testing.T) {
	one := []resource.Group{{Suffix: "a"}}
	for _, v := range []struct {
		flavor resource.Policy
		own    int // groups of the flavor with a suffix
		ports  []resource.Group
		want   resource.Policy
	}{
		{"", 0, nil, ""}, {"", 0, one, ""}, {"", 1, nil, ""}, {"", 1, one, "none"},
		{"", 0, []resource.Group{{Suffix: "a"}, {Suffix: "b"}}, "none"}, {"isolate", 1, one, "isolate"},
		{"", 2, nil, "none"}, {"isolate", 2, nil, "isolate"},
	} {
		ask := resource.Ask{Groups: []resource.Group{{}}, GroupPolicy: v.flavor}
		for range v.own {
			ask.Groups = append(ask.Groups, resource.Group{Suffix: "own"})
		}
		got, err := Add(ask, Request{Groups: v.ports, SameSubtrees: [][]string{{"a"}}})
		if err != nil || got.GroupPolicy != v.want || len(got.Groups) != 1+v.own+len(v.ports) || len(got.SameSubtree) != 1 {
			t.Errorf("%+v: %+v, %v", v, got, err)
		}
	}
	ask := resource.Ask{Groups: []resource.Group{{Suffix: "a"}}}
	if _, err := Add(ask, Request{Groups: one}); !fault.Is(err, fault.Conflict) {
		t.Errorf("equal suffixes: %v", err)
	}
}

// An unknown trait is removed where another one may serve instead; a required one stays, so that Placement refuses it.
func TestWithoutUnknown(t *testing.T) {
	ask := resource.Ask{Groups: []resource.Group{{}, {Suffix: "a", Required: traits("in:A,B", "C", "in:B,D")}}}
	got, changed := WithoutUnknown(ask, []resource.Trait{"B", "C"})
	if !changed || !reflect.DeepEqual(got.Groups[1].Required, traits("A", "C", "D")) ||
		!reflect.DeepEqual(ask.Groups[1].Required, traits("in:A,B", "C", "in:B,D")) {
		t.Errorf("%v %+v", changed, got)
	}
	if got, changed := WithoutUnknown(ask, []resource.Trait{"C", "X"}); changed || !reflect.DeepEqual(got, ask) {
		t.Errorf("%v %+v", changed, got)
	}
	if got, changed := WithoutUnknown(ask, []resource.Trait{"A", "B", "D"}); changed || !reflect.DeepEqual(got, ask) {
		t.Errorf("%v %+v", changed, got)
	}
}

package bandwidth

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func set(n int) Rate { return Rate{Amount: n, Set: true} }

// sentences joins the texts of errors.
func sentences(errs []error) string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return strings.Join(out, "\n")
}

func TestParseBandwidths(t *testing.T) {
	for _, row := range []struct {
		elements []string
		want     map[string]Rates
	}{
		{nil, map[string]Rates{}},
		{[]string{"eth0"}, map[string]Rates{"eth0": {}}},
		{[]string{"eth0::"}, map[string]Rates{"eth0": {}}},
		{[]string{"eth0:1:"}, map[string]Rates{"eth0": {Egress: set(1)}}},
		{[]string{"eth0::1"}, map[string]Rates{"eth0": {Ingress: set(1)}}},
		{[]string{"eth0:1:1"}, map[string]Rates{"eth0": {set(1), set(1)}}},
		{[]string{"eth0:0:0"}, map[string]Rates{"eth0": {set(0), set(0)}}},
		{[]string{"br-ex : 10 : 20", "rp_tunnelled:30:40"},
			map[string]Rates{"br-ex": {set(10), set(20)}, "rp_tunnelled": {set(30), set(40)}}},
	} {
		got, wrong := ParseBandwidths(row.elements)
		if len(wrong) > 0 || !maps.Equal(got, row.want) {
			t.Errorf("%q: %v, errors %v; want %v", row.elements, got, wrong, row.want)
		}
	}
}

func TestParseBandwidthsReportsEachWrongElement(t *testing.T) {
	elements := []string{"eth0:1", "eth1:not a number:1", "eth2:1:-1", "eth3:1:2:3", ":1:2", "eth4:1:2147483648",
		"eth5:1.5:", "", "eth6:1:1", "eth6:2:2"}
	got, wrong := ParseBandwidths(elements)
	if len(wrong) != 9 || !maps.Equal(got, map[string]Rates{"eth6": {set(1), set(1)}}) {
		t.Errorf("%v, %d errors:\n%s", got, len(wrong), sentences(wrong))
	}
	for i, words := range []string{`"eth0:1": it has 2 fields separated by colons and needs 3`, `"not a number"`, `"-1"`,
		"4 fields", "the device is empty", "2147483648", "1.5", "the device is empty", "eth6 has rates already"} {
		if i < len(wrong) && !strings.Contains(wrong[i].Error(), words) {
			t.Errorf("error %d is %q, without %q", i, wrong[i], words)
		}
	}
}

func TestParseDirectedPacketRates(t *testing.T) {
	for _, row := range []struct {
		element string
		want    map[string]Rates
	}{
		{"host0", map[string]Rates{"host0": {}}},
		{"host0::", map[string]Rates{"host0": {}}},
		{"::", map[string]Rates{"default_host": {}}},
		{"host0:1:", map[string]Rates{"host0": {Egress: set(1)}}},
		{"host0::1", map[string]Rates{"host0": {Ingress: set(1)}}},
		{"host0:1:1", map[string]Rates{"host0": {set(1), set(1)}}},
		{":0:0", map[string]Rates{"default_host": {set(0), set(0)}}},
	} {
		got, wrong := ParseDirectedPacketRates([]string{row.element}, "default_host")
		if len(wrong) > 0 || !maps.Equal(got, row.want) {
			t.Errorf("%q: %v, errors %v; want %v", row.element, got, wrong, row.want)
		}
	}
	for _, elements := range [][]string{{"default_host::", "::"}, {"host0", "host0::"}, {"host0:x:1"}, {"host0:1"},
		{"host0:-1:1"}} {
		if _, wrong := ParseDirectedPacketRates(elements, "default_host"); len(wrong) != 1 {
			t.Errorf("%q: %d errors, want 1", elements, len(wrong))
		}
	}
}

func TestParsePacketRates(t *testing.T) {
	for _, row := range []struct {
		element string
		want    map[string]Rate
	}{
		{"host0", map[string]Rate{"host0": {}}},
		{"host0:", map[string]Rate{"host0": {}}},
		{"host0:1", map[string]Rate{"host0": set(1)}},
		{":", map[string]Rate{"default_host": {}}},
		{":0", map[string]Rate{"default_host": set(0)}},
	} {
		got, wrong := ParsePacketRates([]string{row.element}, "default_host")
		if len(wrong) > 0 || !maps.Equal(got, row.want) {
			t.Errorf("%q: %v, errors %v; want %v", row.element, got, wrong, row.want)
		}
	}
	for _, elements := range [][]string{{"host0:1", "host0:1"}, {":1", "default_host:2"}, {"host0:many"}, {"host0:1:2"}} {
		if _, wrong := ParsePacketRates(elements, "default_host"); len(wrong) != 1 {
			t.Errorf("%q: %d errors, want 1", elements, len(wrong))
		}
	}
}

func TestParseMappings(t *testing.T) {
	got, wrong := ParseMappings([]string{"physnet0:br0", "physnet1:br1"}, true)
	if len(wrong) > 0 || !slices.Equal(got, []Mapping{{"physnet0", "br0"}, {"physnet1", "br1"}}) {
		t.Errorf("%v, errors %v", got, wrong)
	}
	got, wrong = ParseMappings([]string{"physnet0:ens1f0", "physnet0:ens1f1", "physnet1:ens1f1"}, false)
	if len(wrong) > 0 || len(got) != 3 {
		t.Errorf("a physical network with two devices: %v, errors %v", got, wrong)
	}
	for _, elements := range [][]string{{"physnet0"}, {":br0"}, {"physnet0:"}, {""}, {"a:b:c"},
		{"physnet0:br0", "physnet0:br1"}, {"physnet0:br0", "physnet1:br0"}} {
		if got, wrong := ParseMappings(elements, true); len(wrong) != 1 || len(got) != len(elements)-1 {
			t.Errorf("%q: %v with %d errors, want 1", elements, got, len(wrong))
		}
	}
	if _, wrong := ParseMappings([]string{"a:ens1f0", "a:ens1f0"}, false); len(wrong) != 1 {
		t.Errorf("a repeated mapping: %v", wrong)
	}
}

func TestParseHypervisors(t *testing.T) {
	got, wrong := ParseHypervisors([]string{"br-ex:compute1", "br-x:"})
	if len(wrong) > 0 || !maps.Equal(got, map[string]string{"br-ex": "compute1", "br-x": ""}) {
		t.Errorf("%v, errors %v", got, wrong)
	}
	for _, element := range []string{"br-ex", ":compute1", "br-ex:a:b", ""} {
		if _, wrong := ParseHypervisors([]string{element}); len(wrong) != 1 {
			t.Errorf("%q: %d errors, want 1", element, len(wrong))
		}
	}
	if _, wrong := ParseHypervisors([]string{"br:a", "br:b"}); len(wrong) != 1 {
		t.Errorf("a device with two hypervisors: %v", wrong)
	}
}

func TestParseInventoryDefaults(t *testing.T) {
	ratio, one, five := 1.5, 1, 5
	for _, row := range []struct {
		elements []string
		want     InventoryDefaults
	}{
		{nil, InventoryDefaults{}},
		{[]string{"allocation_ratio:1.5"}, InventoryDefaults{AllocationRatio: &ratio}},
		{[]string{"min_unit:1"}, InventoryDefaults{MinUnit: &one}},
		{[]string{"max_unit:5", "step_size:1", "reserved:5"}, InventoryDefaults{MaxUnit: &five, StepSize: &one,
			Reserved: &five}},
	} {
		got, wrong := ParseInventoryDefaults(row.elements)
		if len(wrong) > 0 || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%q: %+v, errors %v; want %+v", row.elements, got, wrong, row.want)
		}
	}
	for _, elements := range [][]string{{"allocation_ratio:-1.0"}, {"allocation_ratio:0"}, {"allocation_ratio:NaN"},
		{"allocation_ratio:inf"}, {"min_unit:-1"}, {"min_unit:0"}, {"step_size:0"}, {"total:100"}, {"unknown:1"},
		{"min_unit"}, {"reserved:1.5"}, {"min_unit:1", "min_unit:2"}, {"min_unit:2", "max_unit:1"}} {
		if _, wrong := ParseInventoryDefaults(elements); len(wrong) != 1 {
			t.Errorf("%q: %d errors, want 1:\n%s", elements, len(wrong), sentences(wrong))
		}
	}
	if _, wrong := ParseInventoryDefaults([]string{"min_unit:x", "total:1", "reserved:-1"}); len(wrong) != 3 {
		t.Errorf("not all errors are reported: %v", wrong)
	}
}

func TestInventoryFollowsTheDefaults(t *testing.T) {
	defaults, _ := ParseInventoryDefaults([]string{"step_size:10", "max_unit:50"})
	inv := defaults.Inventory(100)
	if inv.Total != 100 || inv.StepSize != 10 || inv.MaxUnit != 50 || inv.MinUnit != 1 || inv.Reserved != 0 ||
		inv.AllocationRatio != 1 {
		t.Errorf("%+v", inv)
	}
	if inv := BuiltInDefaults().Inventory(7); inv != (InventoryDefaults{}).Inventory(7) {
		t.Errorf("the built-in defaults %+v are not Placement's", inv)
	}
}

func TestParseVNICTypes(t *testing.T) {
	types, wrong := ParseVNICTypes(NICSwitch, []string{"macvtap", "direct-physical"})
	if len(wrong) > 0 || !slices.Equal(types, []string{"direct", "accelerator-direct"}) {
		t.Errorf("%v, errors %v", types, wrong)
	}
	if types, _ := ParseVNICTypes(OpenVSwitch, nil); len(types) != 4 {
		t.Errorf("%v", types)
	}
	if _, wrong := ParseVNICTypes(OpenVSwitch, []string{"macvtap", "dirct"}); len(wrong) != 2 {
		t.Errorf("unsupported types: %v", wrong)
	}
	_, wrong = ParseVNICTypes(OpenVSwitch, []string{"normal", "direct", "smart-nic", "vdpa"})
	if len(wrong) != 1 || !strings.Contains(wrong[0].Error(), "no vnic type is left") {
		t.Errorf("all types are prohibited: %v", wrong)
	}
}

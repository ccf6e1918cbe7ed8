package pci

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func TestPropertiesOfARule(t *testing.T) {
	r := rule(t, `{"vendor_id":"10de","properties":{"fabric":" p8-0,p4-0 , p4-0","rack_unit":"U1.2"}}`)
	want := Properties{"fabric": {"p4-0", "p8-0"}, "rack_unit": {"U1.2"}}
	if !reflect.DeepEqual(r.Properties, want) {
		t.Errorf("%v, want %v", r.Properties, want)
	}
	if again := rule(t, r.String()); !reflect.DeepEqual(again, r) {
		t.Errorf("%s is read as %+v, want %+v", r, again, r)
	}
	if r := rule(t, `{"properties":{}}`); r.Properties != nil || r.String() != "{}" {
		t.Errorf("%+v", r)
	}
}

func TestWrongPropertiesAreRefused(t *testing.T) {
	long := strings.Repeat("x", 65)
	for properties, reason := range map[string]string{
		`"fabric"`:              `properties must be an object of texts`,
		`null`:                  `properties must be an object of texts`,
		`["a"]`:                 `properties must be an object of texts`,
		`{"fabric": 1}`:         `properties must be an object of texts`,
		`{"fabric": ["a"]}`:     `properties must be an object of texts`,
		`{"pcie_root": "a"}`:    `properties has "pcie_root", which the host itself reports`,
		`{"socket": "a"}`:       `properties has "socket", which the host itself reports`,
		`{"Fabric": "a"}`:       `properties has the name "Fabric"; write a lower-case letter`,
		`{"": "a"}`:             `properties has the name ""`,
		`{"a-b": "a"}`:          `properties has the name "a-b"`,
		`{"f": ""}`:             `properties: f has the value ""`,
		`{"f": "a,"}`:           `properties: f has the value ""`,
		`{"f": "a b"}`:          `properties: f has the value "a b"`,
		`{"f": "-a"}`:           `properties: f has the value "-a"`,
		`{"f": "` + long + `"}`: `properties: f has the value "xxx`,
	} {
		_, err := ParseSpecs(`{"properties":` + properties + `}`)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), reason) {
			t.Errorf("%s: %v, want %s", properties, err, reason)
		}
	}
}

func TestValuesOfADevice(t *testing.T) {
	pf := address(t, "0000:84:00.0")
	d := Offered{Device: Device{Address: address(t, "0000:84:00.2"), Parent: &pf, IOMMUGroup: 17, Bridges: []Address{
		address(t, "0000:80:01.0"), address(t, "0000:82:00.0"), address(t, "0000:83:01.0")}},
		Properties: Properties{"fabric": {"p4-0", "p8-0"}}}
	alone := Offered{Device: Device{Address: address(t, "0000:00:1f.1"), IOMMUGroup: NoGroup}}
	for _, c := range []struct {
		device Offered
		family string
		want   []string
	}{
		{d, RootFamily, []string{"0000:80:01.0"}},
		{d, SwitchFamily, []string{"0000:82:00.0", "0000:83:01.0"}},
		{d, GroupFamily, []string{"17"}},
		{d, "fabric", []string{"p4-0", "p8-0"}},
		{d, "other", nil},
		{alone, RootFamily, []string{"0000:00:1f.1"}},
		{alone, SwitchFamily, nil},
		{alone, GroupFamily, nil},
		{alone, "fabric", nil},
	} {
		if got := c.device.Values(c.family); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s of %s: %v, want %v", c.family, c.device.Address, got, c.want)
		}
	}
	onRootBus := Offered{Device: Device{Address: address(t, "0000:00:02.1"), Parent: &pf}}
	if got := onRootBus.Values(RootFamily); !reflect.DeepEqual(got, []string{"0000:84:00.0"}) {
		t.Errorf("a VF without a port above it has the root %v, want its PF", got)
	}
}

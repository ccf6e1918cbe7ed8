package pci

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// TestAliasRows tests the rows A1 to A15 of docs/behaviour/nova-pci.md 7.10 and M6 of 7.15 that are about aliases
// alone; compute/flavor tests the rows about groups.
func TestAliasRows(t *testing.T) {
	const ids, others = `"vendor_id":"8086","product_id":"0443"`, `"vendor_id":"8086","product_id":"0442"`
	for _, c := range []struct {
		row         string
		inPlacement bool
		texts       []string
		refused     string // part of the error; empty: accepted
		want        Alias  // the alias a, if accepted
	}{
		{row: "A1 live_migratable and device_type",
			texts: []string{`{"name":"a",` + ids + `,"device_type":"type-PCI","live_migratable":"yes"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Vendor: "8086", Product: "0443", Type: Plain,
				Class: "CUSTOM_PCI_8086_0443", LiveMigratable: Yes}}},
		{row: "A2 two definitions", texts: []string{`{"name":"a",` + ids + `,"device_type":"type-PCI"}`,
			`{"name":"a",` + others + `,"device_type":"type-PCI"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Vendor: "8086", Product: "0443", Type: Plain,
				Class: "CUSTOM_PCI_8086_0443"},
				Alternatives: []Requirement{{Vendor: "8086", Product: "0442", Type: Plain, Class: "CUSTOM_PCI_8086_0442"}}}},
		{row: "A3 different default classes", inPlacement: true, texts: []string{`{"name":"a",` + ids + `}`,
			`{"name":"a",` + others + `}`},
			refused: "one resource_class in device_spec"},
		{row: "A3 the same twice", inPlacement: true, texts: []string{`{"name":"a",` + ids + `}`, `{"name":"a",` + ids + `}`},
			refused: "twice"},
		{row: "A3 unambiguous: one class and the same traits", inPlacement: true,
			texts: []string{`{"name":"a","resource_class":"x","traits":"b,c",` + ids + `}`,
				`{"name":"a","resource_class":"X","traits":"c,b",` + others + `}`},
			want: Alias{Name: "a", Policy: Legacy,
				Requirement: Requirement{Vendor: "8086", Product: "0443", Class: "CUSTOM_X", Required: []resource.Trait{"CUSTOM_B",
					"CUSTOM_C"}},
				Alternatives: []Requirement{{Vendor: "8086", Product: "0442", Class: "CUSTOM_X",
					Required: []resource.Trait{"CUSTOM_B",
						"CUSTOM_C"}}}}},
		{row: "A3 other traits", inPlacement: true, texts: []string{`{"name":"a","resource_class":"x"}`,
			`{"name":"a","resource_class":"x","traits":"b"}`}, refused: "classes or traits"},
		{row: "A4 an unknown device_type", texts: []string{`{"name":"a",` + ids + `,"device_type":"N"}`},
			refused: "device_type"},
		{row: "A4 device_type vdpa", texts: []string{`{"name":"a",` + ids + `,"device_type":"vdpa"}`},
			refused: "device_type"},
		{row: "A4 live_migratable is not a boolean", texts: []string{`{"name":"a",` + ids + `,"live_migratable":"maybe"}`},
			refused: "live_migratable"},
		{row: "A4 product_id is not hexadecimal", texts: []string{`{"name":"a","vendor_id":"8086","product_id":"g111"}`},
			refused: "product_id"},
		{row: "A4 vendor_id is not hexadecimal", texts: []string{`{"name":"a","vendor_id":"0xg111","product_id":"0443"}`},
			refused: "vendor_id"},
		{row: "A4 M6 another capability_type", texts: []string{`{"name":"a",` + ids + `,"capability_type":"usb"}`},
			refused: "capability_type"},
		{row: "A4 an unknown numa_policy", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"derp"}`},
			refused: "numa_policy"},
		{row: "A4 unknown key", texts: []string{`{"name":"a",` + ids + `,"devname":"eth0"}`}, refused: "devname"},
		{row: "A5 preferred", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"preferred"}`},
			want: Alias{Name: "a", Policy: Preferred, Requirement: Requirement{Vendor: "8086", Product: "0443",
				Class: "CUSTOM_PCI_8086_0443"}}},
		{row: "A5 required", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"required"}`},
			want: Alias{Name: "a", Policy: Required, Requirement: Requirement{Vendor: "8086", Product: "0443",
				Class: "CUSTOM_PCI_8086_0443"}}},
		{row: "A5 legacy", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"legacy"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Vendor: "8086", Product: "0443",
				Class: "CUSTOM_PCI_8086_0443"}}},
		{row: "A5 socket", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"socket"}`},
			want: Alias{Name: "a", Policy: Socket, Requirement: Requirement{Vendor: "8086", Product: "0443",
				Class: "CUSTOM_PCI_8086_0443"}}},
		{row: "A7 device_type differs", texts: []string{`{"name":"a",` + ids + `,"device_type":"type-PF"}`,
			`{"name":"a",` + others + `}`}, refused: "different device_type"},
		{row: "A7 numa_policy differs", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"required"}`,
			`{"name":"a",` + others + `}`}, refused: "different numa_policy"},
		{row: "A8 no vendor", texts: []string{`{"name":"a","product_id":"0443","resource_class":"x"}`}, refused: `"a"`},
		{row: "A8 no product", texts: []string{`{"name":"a","vendor_id":"8086","resource_class":"x"}`}, refused: `"a"`},
		{row: "A8 a class only", texts: []string{`{"name":"a","resource_class":"x"}`}, refused: "pci_in_placement is off"},
		{row: "A8 nothing", texts: []string{`{"name":"a"}`}, refused: "does not identify"},
		{row: "A9 G3 nothing", inPlacement: true, texts: []string{`{"name":"a"}`}, refused: "resource_class"},
		{row: "A9 vendor only", inPlacement: true, texts: []string{`{"name":"a","vendor_id":"8086"}`},
			refused: "resource_class"},
		{row: "A9 product only", inPlacement: true, texts: []string{`{"name":"a","product_id":"0443"}`},
			refused: "resource_class"},
		{row: "A9 a class only", inPlacement: true, texts: []string{`{"name":"a","resource_class":"x"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Class: "CUSTOM_X"}}},
		{row: "M6 capability_type pci has no effect", texts: []string{`{"name":"a",` + ids + `,"capability_type":"pci"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Vendor: "8086", Product: "0443",
				Class: "CUSTOM_PCI_8086_0443"}}},
	} {
		t.Run(c.row, func(t *testing.T) {
			as, err := ParseAliases(c.inPlacement, c.texts...)
			if c.refused != "" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.refused) {
					t.Errorf("got %v %v, want an Invalid error with %s", as, err, c.refused)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(as["a"], c.want) {
				t.Errorf("got %+v %v\nwant %+v", as["a"], err, c.want)
			}
		})
	}
}

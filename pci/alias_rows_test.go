package pci

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// The rows A1 to A15 of pci.md 7.10 and M6 of 7.15 that are about aliases alone; compute/flavor has those about groups.
func TestAliasRows(t *testing.T) {
	const ids, others = `"vendor_id":"8086","product_id":"0443"`, `"vendor_id":"8086","product_id":"0442"`
	for _, c := range []struct {
		row         string
		inPlacement bool
		texts       []string
		says        string // of the refusal; empty: taken
		want        Alias  // the alias a, when taken
	}{
		{row: "A1", texts: []string{`{"name":"a",` + ids + `,"device_type":"type-PCI","live_migratable":"yes"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Vendor: "8086", Product: "0443", Type: Plain,
				Class: "CUSTOM_PCI_8086_0443", LiveMigratable: Yes}}},
		{row: "A2", texts: []string{`{"name":"a",` + ids + `,"device_type":"type-PCI"}`,
			`{"name":"a",` + others + `,"device_type":"type-PCI"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Vendor: "8086", Product: "0443", Type: Plain,
				Class: "CUSTOM_PCI_8086_0443"},
				Alternatives: []Requirement{{Vendor: "8086", Product: "0442", Type: Plain, Class: "CUSTOM_PCI_8086_0442"}}}},
		{row: "A3", inPlacement: true, texts: []string{`{"name":"a",` + ids + `}`, `{"name":"a",` + others + `}`},
			says: "one resource_class in device_spec"},
		{row: "A3 the same twice", inPlacement: true, texts: []string{`{"name":"a",` + ids + `}`, `{"name":"a",` + ids + `}`},
			says: "twice"},
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
			`{"name":"a","resource_class":"x","traits":"b"}`}, says: "classes or traits"},
		{row: "A4 device_type", texts: []string{`{"name":"a",` + ids + `,"device_type":"N"}`}, says: "device_type"},
		{row: "A4 vdpa", texts: []string{`{"name":"a",` + ids + `,"device_type":"vdpa"}`}, says: "device_type"},
		{row: "A4 live_migratable", texts: []string{`{"name":"a",` + ids + `,"live_migratable":"maybe"}`},
			says: "live_migratable"},
		{row: "A4 product", texts: []string{`{"name":"a","vendor_id":"8086","product_id":"g111"}`}, says: "product_id"},
		{row: "A4 vendor", texts: []string{`{"name":"a","vendor_id":"0xg111","product_id":"0443"}`}, says: "vendor_id"},
		{row: "A4 M6 capability_type", texts: []string{`{"name":"a",` + ids + `,"capability_type":"usb"}`},
			says: "capability_type"},
		{row: "A4 numa_policy", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"derp"}`}, says: "numa_policy"},
		{row: "A4 unknown key", texts: []string{`{"name":"a",` + ids + `,"devname":"eth0"}`}, says: "devname"},
		{row: "A5", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"preferred"}`},
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
			`{"name":"a",` + others + `}`}, says: "different device_type"},
		{row: "A7 numa_policy differs", texts: []string{`{"name":"a",` + ids + `,"numa_policy":"required"}`,
			`{"name":"a",` + others + `}`}, says: "different numa_policy"},
		{row: "A8 no vendor", texts: []string{`{"name":"a","product_id":"0443","resource_class":"x"}`}, says: `"a"`},
		{row: "A8 no product", texts: []string{`{"name":"a","vendor_id":"8086","resource_class":"x"}`}, says: `"a"`},
		{row: "A8 a class only", texts: []string{`{"name":"a","resource_class":"x"}`}, says: "pci_in_placement is off"},
		{row: "A8 nothing", texts: []string{`{"name":"a"}`}, says: "too little"},
		{row: "A9 G3 nothing", inPlacement: true, texts: []string{`{"name":"a"}`}, says: "resource_class"},
		{row: "A9 vendor only", inPlacement: true, texts: []string{`{"name":"a","vendor_id":"8086"}`},
			says: "resource_class"},
		{row: "A9 product only", inPlacement: true, texts: []string{`{"name":"a","product_id":"0443"}`},
			says: "resource_class"},
		{row: "A9 a class only", inPlacement: true, texts: []string{`{"name":"a","resource_class":"x"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Class: "CUSTOM_X"}}},
		{row: "M6 capability_type pci asks for nothing", texts: []string{`{"name":"a",` + ids + `,"capability_type":"pci"}`},
			want: Alias{Name: "a", Policy: Legacy, Requirement: Requirement{Vendor: "8086", Product: "0443",
				Class: "CUSTOM_PCI_8086_0443"}}},
	} {
		t.Run(c.row, func(t *testing.T) {
			as, err := ParseAliases(c.inPlacement, c.texts...)
			if c.says != "" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.says) {
					t.Errorf("got %v %v, want an invalid that says %s", as, err, c.says)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(as["a"], c.want) {
				t.Errorf("got %+v %v\nwant %+v", as["a"], err, c.want)
			}
		})
	}
}

// A11, A12, A14, A15 and M6: what a flavor may write.
func TestFlavorAliasRows(t *testing.T) {
	as, err := ParseAliases(false, `{"name":"QuickAssist","vendor_id":"8086","product_id":"0443"}`,
		`{"name":"IntelNIC","vendor_id":"8086","product_id":"1111"}`,
		`{"name":" Cirrus Logic ","vendor_id":"1013","product_id":"00b8"}`,
		`{"name":"IntelNIC","vendor_id":"8086","product_id":"1112"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ row, text, want, says string }{
		{row: "A11", text: "QuickAssist : 3, IntelNIC: 1", want: "QuickAssist:3:0443 IntelNIC:1:1111|1112"},
		{row: "A12", text: "Nvidia:1", says: `"Nvidia"`},
		{row: "A14", text: " Cirrus Logic : 4, IntelNIC: 3", want: "Cirrus Logic:4:00b8 IntelNIC:3:1111|1112"},
		{row: "A15", text: "", want: ""},
		{row: "M6 blank count", text: "IntelNIC:", says: "count"},
		{row: "M6 no device", text: "IntelNIC:0", says: "from 1"},
		{row: "M6 no count", text: "IntelNIC", says: "a colon and a count"},
		{row: "M6 two counts", text: "IntelNIC:1:2", says: "a colon and a count"},
		{row: "M6 trailing comma", text: "IntelNIC:1,", says: "a colon and a count"},
		{row: "M6 a name twice is two requests", text: "IntelNIC:1,IntelNIC:2", want: "IntelNIC:1:1111|1112 " +
			"IntelNIC:2:1111|1112"},
	} {
		t.Run(c.row, func(t *testing.T) {
			n := 0
			list, err := as.Requests(c.text, func() string { n++; return fmt.Sprint(n) })
			if c.says != "" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.says) {
					t.Errorf("got %v %v, want an invalid that says %s", list, err, c.says)
				}
				return
			}
			var words []string
			for i, r := range list {
				products := r.Requirement.Product
				for _, o := range r.Alternatives {
					products += "|" + o.Product
				}
				words = append(words, fmt.Sprintf("%s:%d:%s", r.Alias, r.Count, products))
				if r.ID != fmt.Sprint(i+1) || r.Providers != nil {
					t.Errorf("request %+v", r)
				}
			}
			if got := strings.Join(words, " "); err != nil || got != c.want {
				t.Errorf("got %q %v, want %q", got, err, c.want)
			}
		})
	}
}

// The table of pci.md 6.7: alias × device; and which requests are sure to be migratable.
func TestLiveMigratable(t *testing.T) {
	vf := Device{Vendor: "8086", Product: "1515", Type: Virtual}
	for _, c := range []struct {
		row           string
		alias, device Flag
		serves        bool
	}{
		{"S8", Yes, Yes, true}, {"S9", Yes, No, false}, {"S12", Yes, Unset, false},
		{"S11", No, Yes, false}, {"no and no", No, No, true}, {"S13", No, Unset, false},
		{"S14", Unset, Yes, true}, {"S15", Unset, No, true}, {"S16", Unset, Unset, true},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := Request{Requirement: Requirement{Vendor: "8086", LiveMigratable: c.alias}}
			if why := r.WhyNot(vf, c.device); (why == "") != c.serves {
				t.Errorf("refused %q", why)
			}
			if r.LiveMigratable() != (c.alias == Yes) {
				t.Error("wrong about being sure")
			}
		})
	}
	// Z13: one definition that does not say so is enough for a refusal.
	one := Request{Requirement: Requirement{Product: "1515", LiveMigratable: Yes},
		Alternatives: []Requirement{{Product: "1516"}}}
	if one.LiveMigratable() {
		t.Error("one definition of the alias does not say so")
	}
	if one.WhyNot(Device{Product: "1516", Type: Virtual}, No) != "" ||
		one.WhyNot(Device{Product: "1515", Type: Virtual}, No) == "" {
		t.Error("each definition is judged by itself")
	}
}

// A10: aliases are read once; looking them up again gives the same, whatever became of what was given before.
func TestA10LookedUpAgain(t *testing.T) {
	as, err := ParseAliases(true,
		`{"name":"a","resource_class":"x","traits":"b,!c","vendor_id":"8086","product_id":"0443"}`,
		`{"name":"a","resource_class":"x","traits":"b,!c","vendor_id":"8086","product_id":"0442"}`)
	if err != nil {
		t.Fatal(err)
	}
	look := func() []Request {
		list, err := as.Requests("a:2,a:1", func() string { return "id" })
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	want := fmt.Sprintf("%+v", look())
	spoilt := look()
	for i := range spoilt {
		spoilt[i].Providers = []resource.ProviderID{"p"}
		spoilt[i].Requirement.Required[0], spoilt[i].Requirement.Forbidden[0] = "CUSTOM_NO", "CUSTOM_NO"
		spoilt[i].Alternatives[0].Product = "ffff"
		spoilt[i].Alternatives[0].Required[0] = "CUSTOM_NO"
	}
	if got := fmt.Sprintf("%+v", look()); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

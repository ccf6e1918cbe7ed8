package pci

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

func TestParseAlias(t *testing.T) {
	for text, want := range map[string]Alias{
		`{"name":" QuickAssist ","vendor_id":"8086","product_id":"0443"}`: {Name: "QuickAssist", Policy: Legacy,
			Requirement: Requirement{Vendor: "8086", Product: "0443", Class: "CUSTOM_PCI_8086_0443"}},
		// The default class.
		`{"name":"a","vendor_id":"DE12","product_id":"12af","device_type":"type-VF","numa_policy":"required",` +
			`"live_migratable":"yes"}`: {
			Name: "a", Policy: Required, Requirement: Requirement{Vendor: "de12", Product: "12af", Type: Virtual,
				Class: "CUSTOM_PCI_DE12_12AF", LiveMigratable: Yes}},
		// With resource_class, vendor_id and product_id are optional.
		`{"name":"a","resource_class":"gpu","traits":"foo, bar,CUSTOM_BLUE"}`: {Name: "a", Policy: Legacy,
			Requirement: Requirement{Class: "CUSTOM_GPU", Required: []resource.Trait{"CUSTOM_BAR", "CUSTOM_BLUE",
				"CUSTOM_FOO"}}},
		// "!" forbids a trait.
		`{"name":"a","resource_class":"PGPU","vendor_id":"10de","traits":"!slow,hw_gpu_api_vulkan,! old"}`: {Name: "a",
			Policy: Legacy,
			Requirement: Requirement{Vendor: "10de", Class: "PGPU", Required: []resource.Trait{"HW_GPU_API_VULKAN"},
				Forbidden: []resource.Trait{"CUSTOM_OLD", "CUSTOM_SLOW"}}},
		`{"name":"a","resource_class":"x","capability_type":"pci","live_migratable":false}`: {Name: "a", Policy: Legacy,
			Requirement: Requirement{Class: "CUSTOM_X", LiveMigratable: No}},
	} {
		got, err := ParseAlias(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n got %+v %v\nwant %+v", text, got, err, want)
		}
		again, err := ParseAlias(got.String())
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%s is formatted as %s, which is parsed as %+v %v", text, got, again, err)
		}
	}
	for _, policy := range policies {
		a, err := ParseAlias(`{"name":"a","resource_class":"x","numa_policy":"` + policy + `"}`)
		if err != nil || string(a.Policy) != policy {
			t.Errorf("%s: %v %v", policy, a, err)
		}
	}
}

func TestParseAliasRefuses(t *testing.T) {
	const ids = `"vendor_id":"8086","product_id":"0443"`
	for text, parts := range map[string][]string{
		``:                           {"empty"},
		`{`:                          {"not JSON"},
		`[{"name":"a",` + ids + `}]`: {"array", "once more"},
		`"a"`:                        {"object"},
		`{` + ids + `}`:              {"no name"},
		`{"name":" ",` + ids + `}`:   {"no name"},
		`{"name":5,` + ids + `}`:     {"name", "5"},
		`{"name":"a:b",` + ids + `}`: {"a:b", "colon"},
		`{"name":"a,b",` + ids + `}`: {"a,b", "comma"},
		`{"name":"` + strings.Repeat("n", 257) + `",` + ids + `}`: {"257"},
		`{"name":"a"}`:                    {`"a"`, "resource_class", "vendor_id and product_id"},
		`{"name":"a","vendor_id":"8086"}`: {`"a"`, "product_id"},
		`{"name":"a","vendor_id":"0x8086","product_id":"0443"}`: {"vendor_id", "0x8086", "four"},
		`{"name":"a","vendor_id":"8086","product_id":"g111"}`:   {"product_id", "g111"},
		`{"name":"a","vendor_id":"8086","product_id":"*"}`:      {"product_id", `"*"`},
		`{"name":"a",` + ids + `,"device_type":"vdpa"}`:         {"device_type", "vdpa", "type-PCI, type-PF, type-VF"},
		`{"name":"a",` + ids + `,"device_type":"type-vf"}`:      {"device_type", "type-vf", "type-"},
		`{"name":"a",` + ids + `,"device_type":""}`:             {"device_type"},
		`{"name":"a",` + ids + `,"numa_policy":"derp"}`:         {"numa_policy", "derp", "legacy"},
		`{"name":"a",` + ids + `,"numa_policy":"prefered"}`:     {"prefered", `did you mean "preferred"`},
		`{"name":"a",` + ids + `,"capability_type":"usb"}`:      {"capability_type", "usb"},
		`{"name":"a",` + ids + `,"live_migratable":"maybe"}`:    {"live_migratable", "maybe"},
		`{"name":"a",` + ids + `,"trait":"x"}`:                  {`"trait"`, `"traits"`},
		`{"name":"a",` + ids + `,"traits":"x,!X"}`:              {"x,!X", "requires and forbids", "CUSTOM_X"},
		`{"name":"a",` + ids + `,"traits":"!"}`:                 {"traits", "empty"},
		`{"name":"a",` + ids + `,"resource_class":"vcpu"}`:      {"vcpu", "count devices"},
		`{"name":"a",` + ids + `,` + ids + `}`:                  {"vendor_id", "twice"},
	} {
		a, err := ParseAlias(text)
		if err == nil {
			t.Errorf("%s is accepted as %v", text, a)
			continue
		}
		for _, part := range parts {
			if sentence := fault.TextOf(err); !strings.Contains(sentence, part) ||
				!strings.HasPrefix(sentence, "alias") {
				t.Errorf("%s: %q does not contain %q", text, sentence, part)
			}
		}
	}
}

func TestAliases(t *testing.T) {
	const byIDs, byClass = `{"name":"a","vendor_id":"8086","product_id":"0443"}`, `{"name":"b","resource_class":"gpu"}`
	as, err := ParseAliases(true, byIDs, byClass)
	if err != nil || len(as) != 2 || as["b"].Requirement.Class != "CUSTOM_GPU" {
		t.Errorf("%v %v", as, err)
	}
	if _, err := ParseAliases(false, byIDs); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		inPlacement bool
		texts       []string
		parts       []string
	}{
		{false, []string{byIDs, byClass}, []string{"number 2", `"b"`, "pci_in_placement is off"}},
		{true, []string{byIDs, byIDs}, []string{"number 2", `"a"`, "twice", "resource_class"}},
		{true, []string{byClass, `{"name":"c"}`}, []string{"number 2", `"c"`}},
	} {
		as, err := ParseAliases(c.inPlacement, c.texts...)
		if err == nil || as != nil {
			t.Errorf("%v is accepted as %v", c.texts, as)
		}
		for _, part := range c.parts {
			if !strings.Contains(fault.TextOf(err), part) {
				t.Errorf("%v: %q does not contain %q", c.texts, fault.TextOf(err), part)
			}
		}
	}
}

func FuzzParseAlias(f *testing.F) {
	for _, seed := range []string{`{"name":"a","vendor_id":"8086","product_id":"0443"}`,
		`{"name":" é ","resource_class":"x","traits":"a,!b","numa_policy":"socket"}`,
		`{"name":"a","resource_class":"pgpu","vendor_id":"10DE","device_type":"type-PF","live_migratable":"n",` +
			`"capability_type":"pci"}`,
		`[]`, `{"name":"\u0000\"","resource_class":"a"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAlias(text)
		if err != nil {
			if fault.TextOf(err) == "" || !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		again, err := ParseAlias(a.String())
		if err != nil || !reflect.DeepEqual(again, a) {
			t.Errorf("%q is formatted as %s, which is parsed as %+v %v", text, a, again, err)
		}
		if a.Requirement.Class == "" || a.Policy == "" {
			t.Errorf("%q: %+v", text, a)
		}
	})
}

// TestAliasesOfSets checks aliases with match, whole and members: they are formatted and parsed without a change, and
// what is wrong is named.
func TestAliasesOfSets(t *testing.T) {
	for _, text := range []string{
		`{"name": "pair", "members": {"gpu":1,"nic":2}, "match": "pcie_root"}`,
		`{"name": "hgx", "numa_policy": "legacy", "resource_class": "CUSTOM_GPU", "match": "fabric", "whole": true}`,
	} {
		if a, err := ParseAlias(text); err != nil || a.String() != text {
			t.Errorf("%s is formatted as %s, %v", text, a, err)
		}
	}
	gpu, nic := `{"name": "gpu", "resource_class": "GPU"}`, `{"name": "nic", "resource_class": "NIC"}`
	for text, says := range map[string]string{
		`{"name": "a", "members": {"gpu": 1}}`:                                             "members without match",
		`{"name": "a", "members": {}, "match": "pf"}`:                                      "object of numbers",
		`{"name": "a", "members": {"gpu": 1, "gpu": 2}, "match": "pf"}`:                    "object of numbers",
		`{"name": "a", "members": {"gpu": 1.5}, "match": "pf"}`:                            "object of numbers",
		`{"name": "a", "members": {"gpu": 0}, "match": "pf"}`:                              "the number of gpu is 0",
		`{"name": "a", "members": {"gpu": 40, "nic": 40}, "match": "pf"}`:                  "are 80 devices",
		`{"name": "a", "members": {"gpu": 1}, "match": "pf", "device_type": "type-VF"}`:    "members and device_type",
		`{"name": "a", "members": {"gpus": 1}, "match": "pf"}`:                             "no alias \"gpus\" is configured",
		`{"name": "a", "members": {"a": 1}, "match": "pf"}`:                                "has a match of its own",
		`{"name": "a", "resource_class": "GPU", "match": "pcie-root"}`:                     "not a family",
		`{"name": "a", "resource_class": "GPU", "match": ""}`:                              "not a family",
		`{"name": "a", "resource_class": "GPU", "whole": true}`:                            "whole without match",
		`{"name": "gpu", "resource_class": "GPU", "vendor_id": "10de", "match": "fabric"}`: "different match or whole",
		`{"name": "gpu", "members": {"nic": 1}, "match": "fabric"}`:                        "defined twice",
	} {
		if _, err := ParseAliases(true, gpu, nic, text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want %q", text, err, says)
		}
	}
}

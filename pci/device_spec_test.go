package pci

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// address parses a PCI address.
func address(t testing.TB, text string) Address {
	t.Helper()
	a, err := ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// vf returns a VF 8086:1515 of a PF.
func vf(t testing.TB, own, pf string) Device {
	parent := address(t, pf)
	return Device{Address: address(t, own), Vendor: "8086", Product: "1515", Type: Virtual, Parent: &parent}
}

// rule parses a device_spec with one rule.
func rule(t testing.TB, text string) Rule {
	t.Helper()
	rules, err := ParseSpecs(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(rules) != 1 {
		t.Fatalf("%s: %d rules", text, len(rules))
	}
	return rules[0]
}

func TestParseSpecsNormalizes(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: `{}`,
		`{"vendor_id": " 0x8086 ", "product_id": " * "}`:    `{"vendor_id": "8086"}`,
		`{"vendor_id":"86"}`:                                `{"vendor_id": "0086"}`,
		`{"vendor_id":"*","product_id":"67FF"}`:             `{"product_id": "67ff"}`,
		`{"address":"5"}`:                                   `{"address": "*:*:05.*"}`,
		`{"address":"0a:00"}`:                               `{"address": "*:0a:00.*"}`,
		`{"address":".5"}`:                                  `{"address": "*:*:*.5"}`,
		`{"address":":0a:00."}`:                             `{"address": "*:0a:00.*"}`,
		`{"address":"0000:06:"}`:                            `{"address": "0000:06:*.*"}`,
		`{"address":"*: *: *.5"}`:                           `{"address": "*:*:*.5"}`,
		`{"address":"10000:E1:1f.7"}`:                       `{"address": "10000:e1:1f.7"}`,
		`{"address":""}`:                                    `{}`,
		`{"address":null}`:                                  `{}`,
		`{"address":{}}`:                                    `{}`,
		`{"address":{"bus":"8[1-2]","function":"1"}}`:       `{"address": {"bus":"8[1-2]","function":"1"}}`,
		`{"devname":" ens3f0 ","physical_network":"phys1"}`: `{"devname": "ens3f0", "physical_network": "phys1"}`,
		`{"devname":""}`:                                    `{}`,
		`{"physical_network":null,"trusted":"TRUE"}`:        `{"physical_network": null, "trusted": "true"}`,
		`{"managed":"no","live_migratable":true,"one_time_use":1,"remote_managed":"Off"}`: `{"remote_managed": "false", ` +
			`"managed": "false", "live_migratable": "true", "one_time_use": "true"}`,
		`{"resource_class":"pgpu","traits":"hw_gpu_api_vulkan, purple,CUSTOM_a,purple"}`: `{"resource_class": "PGPU", ` +
			`"traits": "CUSTOM_A,CUSTOM_PURPLE,HW_GPU_API_VULKAN"}`,
		`{"resource_class":"","traits":""}`:              `{}`,
		`{"shapes":["vf","pf"],"resource_class":"card"}`: `{"resource_class": "CUSTOM_CARD", "shapes": ["pf","vf"]}`,
	} {
		if got := rule(t, text).String(); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestParseSpecsKeepsTheOrder(t *testing.T) {
	rules, err := ParseSpecs(` [ {"product_id":"2"}, {"product_id":"1"} ] `)
	if err != nil || len(rules) != 2 || rules[0].Product != "0002" || rules[1].Product != "0001" {
		t.Errorf("%v %v", rules, err)
	}
	if rules, err := ParseSpecs("[]"); err != nil || len(rules) != 0 {
		t.Errorf("%v %v", rules, err)
	}
}

// TestParseSpecsRefuses tests that the error contains the key, the text and the remedy.
func TestParseSpecsRefuses(t *testing.T) {
	for text, parts := range map[string][]string{
		"":                                          {"empty"},
		"  ":                                        {"empty"},
		`{'vendor_id': '8086'}`:                     {"not JSON", `'vendor_id'`, "double quotes"},
		`{"vendor_id": "8086",}`:                    {"not JSON", "comma"},
		`{"vendor_id": "8086"} {}`:                  {"not JSON", "{}"},
		`"8086"`:                                    {"object", `"8086"`},
		`null`:                                      {"object", "null"},
		`[{}, 5]`:                                   {"object", "5"},
		`{"traits": "A", "traits": "B"}`:            {`"traits"`, "twice"},
		`{"vendr_id": "8086"}`:                      {`"vendr_id"`, `did you mean "vendor_id"`},
		`{"Vendor_ID": "8086"}`:                     {`"Vendor_ID"`, `did you mean "vendor_id"`},
		`{"quality": "8086"}`:                       {`"quality"`, "vendor_id, product_id"},
		`{"vendor_id": 8086}`:                       {"vendor_id", "8086", "double quotes"},
		`{"vendor_id": null}`:                       {"vendor_id", "null"},
		`{"vendor_id": ""}`:                         {"vendor_id", `""`},
		`{"vendor_id": "80860"}`:                    {"vendor_id", "80860", "FFFF"},
		`{"product_id": "+1"}`:                      {"product_id", "+1"},
		`{"product_id": "x"}`:                       {"product_id", `"x"`},
		`{"address": "00:0000:0a:00.5"}`:            {"address", "00:0000:0a:00.5", "DDDD:BB:SS.F"},
		`{"address": "0000:h4.12:6"}`:               {"address", "12:6"},
		`{"address": "0000:0a:00.8"}`:               {"function", `"8"`, "7"},
		`{"address": "100000000:0a:00.0"}`:          {"domain", "100000000", "FFFFFFFF"},
		`{"address": "0000:100:00.0"}`:              {"bus", "100", "FF"},
		`{"address": "0000:0a:20.0"}`:               {"slot", "20", "1F"},
		`{"address": "0000:8*:00.0"}`:               {"bus", "8*"},
		`{"address": ["0000:81:00.0"]}`:             {"address", `["0000:81:00.0"]`},
		`{"address": 5}`:                            {"address", "5"},
		`{"address": {"bus": "*"}}`:                 {"bus", `"*"`, ".*"},
		`{"address": {"bus": "a)(b"}}`:              {"bus", `"a)(b"`},
		`{"address": {"function": "[6[-7"}}`:        {"function", "[6[-7"},
		`{"address": {"bus": 81}}`:                  {"bus", "81", "double quotes"},
		`{"address": {"bus": null}}`:                {"bus", "null"},
		`{"address": {"fn": "0"}}`:                  {`"fn"`, "function"},
		`{"address": "81:00.0", "devname": "eth0"}`: {"devname", "eth0", "*:81:00.0"},
		`{"physical_network": ""}`:                  {"physical_network", "empty"},
		`{"physical_network": 5}`:                   {"physical_network", "5"},
		`{"managed": "invalid"}`:                    {"managed", `"invalid"`, "yes"},
		`{"managed": null}`:                         {"managed", "null"},
		`{"one_time_use": 2}`:                       {"one_time_use", "2"},
		`{"resource_class": "gpu", "physical_network": null}`: {"resource_class", "physical_network"},
		`{"resource_class": "A", "shapes": ["pf"]}`:           {"shapes", `["pf"]`, `must be ["pf", "vf"]`},
		`{"resource_class": "A", "shapes": "pf,vf"}`:          {"shapes", `"pf,vf"`},
		`{"resource_class": "A", "shapes": null}`:             {"shapes", "null"},
		`{"shapes": ["pf", "vf"]}`:                            {"shapes", "resource_class"},
		`{"shapes": ["pf", "vf"], "physical_network": null}`:  {"shapes", "physical_network"},
		`{"shapes": ["pf", "vf"], "remote_managed": true}`:    {"shapes", "remote_managed"},
		`{"shapes": ["pf", "vf"], "managed": "no"}`:           {"shapes", "managed"},
		`{"shapes": ["pf", "vf"], "one_time_use": true}`:      {"shapes", "one_time_use"},
		`{"resource_class": "vcpu"}`:                          {"resource_class", "vcpu", "count devices"},
		`{"resource_class": "##"}`:                            {"resource_class", "##"},
		`{"resource_class": ["A"]}`:                           {"resource_class", `["A"]`},
		`{"traits": ["A"]}`:                                   {"traits", `["A"]`, "CUSTOM_FAST,HW"},
		`{"traits": "A,,B"}`:                                  {"traits", "A,,B", "empty name"},
		`{"traits": "A, !B"}`:                                 {"traits", `"B"`, "alias"},
		`{"traits": "-"}`:                                     {"trait", `"-"`},
		// Not JSON, although Nova's specification has a similar example.
		`{"vendor_id": "1002", "traits": "CUSTOM_RADEON_RX_560", "CUSTOM_GDDR5"}`: {"not JSON"},
	} {
		rules, err := ParseSpecs(text)
		if err == nil {
			t.Errorf("%s is accepted as %v", text, rules)
			continue
		}
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v has kind %s", text, err, fault.KindOf(err))
		}
		sentence := fault.TextOf(err)
		if !strings.HasPrefix(sentence, "device_spec") {
			t.Errorf("%s: %q does not begin with the option", text, sentence)
		}
		for _, part := range parts {
			if !strings.Contains(strings.ReplaceAll(sentence, `\"`, `"`), part) {
				t.Errorf("%s: %q does not contain %q", text, sentence, part)
			}
		}
	}
}

func TestRuleMatch(t *testing.T) {
	pf := Device{
		Address: address(t, "0000:81:00.0"),
		Vendor:  "8086",
		Product: "1528",
		Type:    Physical,
		Net:     []string{"ens3f0"},
	}
	child := vf(t, "0000:81:10.1", "0000:81:00.0")
	child.Net = []string{"ens3f0v0"}
	lone := Device{Address: address(t, "0000:0a:00.5"), Vendor: "1002", Product: "67ff", Type: Plain}
	far := Device{Address: address(t, "10000:0a:00.5"), Vendor: "1002", Product: "67ff", Type: Plain}
	devices := map[string]Device{"pf": pf, "vf": child, "lone": lone, "far": far}

	for text, want := range map[string]string{
		`{}`:                   "far lone pf vf",
		`{"vendor_id":"8086"}`: "pf vf",
		`{"vendor_id":"8086","product_id":"1515"}`: "vf",
		`{"vendor_id":"1002","product_id":"1515"}`: "",
		// The exact address of a PF matches the PF and its VFs; product_id restricts it.
		`{"address":"0000:81:00.0"}`:                                          "pf vf",
		`{"address":"0000:81:00.0","product_id":"1515"}`:                      "vf",
		`{"address":"0000:81:00.0","product_id":"1528"}`:                      "pf",
		`{"address":{"domain":"0000","bus":"81","slot":"00","function":"0"}}`: "pf vf",
		// Any other address is compared with the address of the device.
		`{"address":"0000:81:00.*"}`:                          "pf",
		`{"address":"81:00.0"}`:                               "pf",
		`{"address":{"bus":"81","slot":"00","function":"0"}}`: "pf",
		`{"address":"0000:81:10.1"}`:                          "vf",
		`{"address":"0000:0a:00.5"}`:                          "lone",
		`{"address":"*:0a:00.5"}`:                             "far lone",
		`{"address":"10000:0a:00.5"}`:                         "far",
		`{"address":"0000:0a:*.5"}`:                           "lone",
		`{"address":"0000:0a:00.*"}`:                          "lone",
		`{"address":":0a:00."}`:                               "far lone",
		`{"address":".5"}`:                                    "far lone",
		`{"address":"0b:00.5"}`:                               "",
		`{"address":{"domain":"0000","function":"[5-6]"}}`:    "lone",
		`{"address":{"slot":"[0-3]","bus":"0[Aa]"}}`:          "far lone",
		`{"address":{"bus":"0A"}}`:                            "far lone",
		`{"address":{"bus":"a"}}`:                             "",
		`{"address":{"slot":"1","domain":"00"}}`:              "vf", // compared from the start, not to the end
		`{"address":{"function":"[6-7]"}}`:                    "",
		`{"address":{"bus":"81|0a","slot":"00"}}`:             "far lone pf",
		`{"devname":"ens3f0"}`:                                "pf vf",
		`{"devname":"ens3f0v0"}`:                              "vf",
		`{"devname":"ens3f0","product_id":"1528"}`:            "pf",
		`{"devname":"eth9"}`:                                  "",
		// With shapes a PF matches with its VFs, whatever their numbers and addresses are, and nothing else.
		`{"shapes":["pf","vf"],"resource_class":"A"}`:                          "pf vf",
		`{"shapes":["pf","vf"],"resource_class":"A","product_id":"1528"}`:      "pf vf",
		`{"shapes":["pf","vf"],"resource_class":"A","product_id":"1515"}`:      "",
		`{"shapes":["pf","vf"],"resource_class":"A","address":"81:00.0"}`:      "pf vf",
		`{"shapes":["pf","vf"],"resource_class":"A","address":"0000:81:10.1"}`: "",
		`{"shapes":["pf","vf"],"resource_class":"A","vendor_id":"1002"}`:       "",
		`{"address":{"domain":"00","bus":"81","slot":"00","function":"0"}}`:    "pf", // digits, but not a full address
	} {
		r := rule(t, text)
		var got []string
		for name, d := range devices {
			var parent *Device
			if d.Parent != nil {
				parent = &pf
			}
			if r.Match(d, parent) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s matches %v, want %s", text, got, want)
		}
	}
}

// TestRulesFirst tests that the first matching rule determines class and traits.
func TestRulesFirst(t *testing.T) {
	rules, err := ParseSpecs(`[{"address":"0000:81:00.1","traits":"a"}, {"vendor_id":"8086","resource_class":"nic"}]`)
	if err != nil {
		t.Fatal(err)
	}
	d := Device{Address: address(t, "0000:81:00.1"), Vendor: "8086", Product: "10d3"}
	r, ok := rules.First(d, nil)
	if !ok || !slices.Equal(r.Traits, []resource.Trait{"CUSTOM_A"}) || r.Class(d) != "CUSTOM_PCI_8086_10D3" {
		t.Errorf("%v %v", r, ok)
	}
	d.Address.Func = 2
	if r, ok := rules.First(d, nil); !ok || r.Traits != nil || r.Class(d) != "CUSTOM_NIC" {
		t.Errorf("%v %v", r, ok)
	}
	d.Vendor = "1002"
	if r, ok := rules.First(d, nil); ok {
		t.Errorf("%v", r)
	}
	if _, ok := Rules(nil).First(d, nil); ok {
		t.Error("a device is offered without rules")
	}
}

// TestRuleForPorts tests that rules with physical_network, also with null, or with remote_managed are for network
// ports.
func TestRuleForPorts(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: false, `{"physical_network":"p"}`: true, `{"physical_network":null}`: true, `{"remote_managed":"true"}`: true,
		`{"remote_managed":"no"}`: false,
	} {
		if got := rule(t, text).ForPorts(); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func FuzzParseSpecs(f *testing.F) {
	for _, seed := range []string{`{}`, `[]`, `[{"vendor_id":"8086","product_id":"1515"},{"address":"0000:81:00.*"}]`,
		`{"address":{"bus":"8[1-2]","slot":""}}`,
		`{"devname":"e","physical_network":null,"trusted":true}`,
		`{"resource_class":"a-b","traits":"x, y","one_time_use":"on"}`, `{"traits":"é,<&>"}`,
		`{'a':1}`, `{"address":"*:*:1f.7","managed":0}`, "{\"devname\":\"\xff\\u0000\"}", `{"physical_network":" a\"b "}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := ParseSpecs(text)
		if err != nil {
			if fault.TextOf(err) == "" || !fault.Is(err, fault.Invalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		parent := Address{Bus: 0x81}
		d := Device{
			Address: Address{Bus: 0x81, Func: 1},
			Vendor:  "8086",
			Product: "1515",
			Parent:  &parent,
			Net:     []string{"e"},
		}
		for _, r := range rules {
			again, err := ParseSpecs(r.String())
			if err != nil || len(again) != 1 || again[0].String() != r.String() {
				t.Fatalf("%q is formatted as %s, which is parsed as %v %v", text, r, again, err)
			}
			if r.Match(d, nil) != again[0].Match(d, nil) {
				t.Errorf("%s matches differently after formatting and parsing", r)
			}
			if c := r.Class(d); !resource.IsCustom(string(c)) && !resource.IsStandardClass(c) {
				t.Errorf("class %q is not valid in Placement", c)
			}
		}
	})
}

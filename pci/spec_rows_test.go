package pci

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// The rows D1 to D27, D34 to D40 of pci.md 7.8, and M7 to M9 of 7.15, that one entry decides: is it taken, and which
// of the devices
// of the row does it mean? D28 to D33 are in TestJudgeRows.
func TestSpecRows(t *testing.T) {
	// 0000:0a:00.5 is the VF of the rows; its PF is 0000:0a:00.0, which has the interface ens5.
	pf := Device{
		Address: address(t, "0000:0a:00.0"),
		Vendor:  "8086",
		Product: "5057",
		Type:    Physical,
		Net:     []string{"ens5"},
	}
	child := vf(t, "0000:0a:00.5", "0000:0a:00.0")
	lone := Device{Address: address(t, "0001:0b:10.6"), Vendor: "8087", Product: "5058", Type: Plain}
	for _, c := range []struct{ row, text, want string }{ // want: the functions meant, or ! and a word of the refusal
		{"D1 an object of valid fields", `{"address":{"domain":"0000","bus":"0a","slot":"00","function":"5"}}`, "5"},
		{"D4", `{"address":"0000:0a:00.5"}`, "5"},
		{"D4 any domain", `{"address":"*:0a:00.5"}`, "5"},
		{"D4 any bus", `{"address":"0000:*:00.5"}`, "5"},
		{"D4 any slot", `{"address":"0000:0a:*.5"}`, "5"},
		{"D4 any function", `{"address":"0000:0a:00.*"}`, "0 5"},
		{"D5 another domain", `{"address":"0002:0a:00.5"}`, ""},
		{"D5 another bus", `{"address":"0000:0c:00.5"}`, ""},
		{"D5 another slot", `{"address":"0000:0a:01.5"}`, ""},
		{"D5 another function", `{"address":"0000:0a:00.4"}`, ""},
		{"D6", `{"address":"00:0000:0a:00.5"}`, "!more than domain, bus and slot"},
		{"D7", `{"address":{"domain":".*","bus":"0a","slot":".*","function":"[5-6]"}}`, "5"},
		{"D7", `{"address":{"domain":"0000","bus":"0a","slot":"[0-3]","function":"[4-5]"}}`, "5"},
		{"D8 another bus", `{"address":{"bus":"0c","function":"[5-6]"}}`, ""},
		{"D8 the slot is right, the bus is not", `{"address":{"domain":"0000","bus":"02","slot":"[0-3]","function":"5"}}`,
			""},
		{"D9 domain", `{"address":{"domain":"*"}}`, "!no regular expression"},
		{"D9 bus", `{"address":{"bus":"*"}}`, "!no regular expression"},
		{"D9 function", `{"address":{"function":"[6[-7]"}}`, "!no regular expression"},
		{"D11", `{"address":"0000:0a:0b:00.5"}`, "!more than domain, bus and slot"},
		// and the function too: the first is told
		{"D12", `{"address":"0000:h4.12:6"}`, `!slot "h4" of address "0000:h4.12:6"`},
		{"D12 the function alone", `{"address":"0000:04.12:6"}`, `!function "12:6"`},
		{"D2 D13 function", `{"address":"0000:0a:00.8"}`,
			`!function "8" of address "0000:0a:00.8" must be "*" or a hexadecimal number of at most 7`},
		{"D2 D13 bus", `{"address":"0000:100:00.5"}`,
			`!bus "100" of address "0000:100:00.5" must be "*" or a hexadecimal number of at most FF`},
		{"D2 D13 slot", `{"address":"0000:0a:20.5"}`,
			`!slot "20" of address "0000:0a:20.5" must be "*" or a hexadecimal number of at most 1F`},
		{"D2 D13 domain: Nova's largest is FFFF, the kernel's is not", `{"address":"10000:0a:00.5"}`, ""},
		{"D2 D13 domain", `{"address":"100000000:0a:00.5"}`, "!at most FFFFFFFF"},
		{"D14", `{"vendor_id":"*"}`, "0 5 6"},
		{"D14 everything", `{}`, "0 5 6"},
		{"D15", `{"address":":0a:00."}`, "0 5"},
		{"D15", `{"address":".5"}`, "5"},
		{"D16", `{"address":"0000:0a:00.0"}`, "0 5"},
		{"D16 narrowed to the VF", `{"address":"0000:0a:00.0","product_id":"1515"}`, "5"},
		{"D16 narrowed to the PF", `{"address":"0000:0a:00.0","product_id":"5057"}`, "0"},
		{"D18", `{"address":{"domain":"0000","bus":"0a","slot":"00","function":"[5-6]"}}`, "5"},
		{"D18 no bus", `{"address":{"domain":"0000","slot":"00","function":"[5-6]"}}`, "5"},
		{"D18 no function", `{"address":{"domain":"0000","bus":"0a","slot":"00"}}`, "0 5"},
		{"D19", `{"address":{"domain":"0000","bus":"0a","slot":"00","function":"[6-7]"}}`, ""},
		{"D20", `{"address":["0000:0a:00.5"]}`, "!object of regular expressions"},
		{"D20 a number", `{"address":5}`, "!object of regular expressions"},
		{"D21", `{"address":{"domain":"0000","bus":"0a","slot":"00","function":"0"}}`, "0 5"},
		{"D22 vendor", `{"vendor_id":"8085","address":"0000:0a:00.5"}`, ""},
		{"D22 product", `{"product_id":"1516","address":"0000:0a:00.5"}`, ""},
		{"D23 vendor", `{"vendor_id":"80860"}`, `!vendor_id is "80860"; write a hexadecimal number of at most FFFF`},
		{"D23 product", `{"product_id":"50570"}`, `!product_id is "50570"; write a hexadecimal number of at most FFFF`},
		{"no hexadecimal number", `{"vendor_id":"80g6"}`, `!vendor_id is "80g6"`},
		{"a number in JSON", `{"vendor_id":8086}`, "!double quotes"},
		{"a null", `{"product_id":null}`, "!double quotes"},
		{"an expression that is a number in JSON", `{"address":{"bus":10}}`, "!double quotes"},
		{"D25", `{"devname":""}`, "0 5 6"},
		{"D26 resolved to the PF of the VF", `{"devname":"ens5"}`, "0 5"},
		{"D26 not resolved", `{"devname":"ens6"}`, ""},
		{"devname and address", `{"devname":"ens5","address":"0000:0a:00.5"}`, "!keep the address"},
		{"devname and an address of wildcards", `{"devname":"ens5","address":"*:*:*.*"}`,
			`!has devname "ens5" beside address "*:*:*.*"; keep one of them`},
		{"devname and one wildcard", `{"devname":"ens5","address":"*"}`, `!has devname "ens5" beside address "*"`},
		{"devname and empty parts", `{"devname":"ens5","address":":."}`, `!has devname "ens5" beside address ":."`},
		{"devname and a blank address", `{"devname":"ens5","address":" "}`, `!has devname "ens5" beside address " "`},
		{"devname and expressions of everything", `{"devname":"ens5","address":{"domain":".*"}}`,
			`!has devname "ens5" and address {"domain": ".*"}; keep the address`},
		{"devname and an empty expression", `{"devname":"ens5","address":{"bus":""}}`,
			`!has devname "ens5" beside address {"bus":""}`},
		{"devname and an address that is absent", `{"devname":"ens5","address":""}`, "0 5"},
		{"devname and an address that is null", `{"devname":"ens5","address":null}`, "0 5"},
		{"devname and an address without parts", `{"devname":"ens5","address":{ }}`, "0 5"},
		{"an empty devname and an address of wildcards", `{"devname":"","address":"*:*:*.*"}`, "0 5 6"},
		{"D27", `{"vendor_id":"8087","product_id":"5058"}`, "6"},
		{"D37", `{"address":"*:0b:10.*"}`, "6"},
		{"D37 none", `{"address":"*:0b:11.*"}`, ""},
		{"D37 expression", `{"address":{"domain":".*","bus":"0b","slot":"10","function":"[6-7]"}}`, "6"},
		{"D37 expression, none", `{"address":{"domain":".*","bus":"0b","slot":"10","function":"[2-3]"}}`, ""},
		{"M8 from the start, not to the end", `{"address":{"domain":"00","slot":"1"}}`, "6"},
		{"M8 one digit is the whole function", `{"address":{"function":"5"}}`, "5"},
		{"M8 an unknown key", `{"address":{"func":"5"}}`, `!unknown key "func"`},
		{"an unknown tag", `{"numa_node":"0"}`, `!unknown key "numa_node"`},
		{"M9 a tunnelled network", `{"physical_network":null}`, "0 5 6"},
	} {
		t.Run(c.row, func(t *testing.T) {
			rules, err := ParseSpecs(c.text)
			if says, refused := strings.CutPrefix(c.want, "!"); refused {
				text := strings.ReplaceAll(fault.TextOf(err), `\"`, `"`)
				if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(text, "device_spec") ||
					!strings.Contains(text, says) {
					t.Errorf("got %v %v, want a refusal that says %s", rules, err, says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var meant []string
			for _, d := range []Device{pf, child, lone} {
				var parent *Device
				if d.Parent != nil {
					parent = &pf
				}
				if _, matched := rules.First(d, parent); matched {
					meant = append(meant, fmt.Sprint(d.Address.Func))
				}
			}
			if got := strings.Join(meant, " "); got != c.want {
				t.Errorf("means %q, want %q", got, c.want)
			}
		})
	}
}

// D35, D36, K4: how entries are written; and an entry that is wrong says which it is.
func TestSpecListRows(t *testing.T) {
	for _, c := range []struct {
		row, text string
		rules     int
		says      string
	}{
		{row: "D35 an object", text: `{"vendor_id":"8086"}`, rules: 1},
		{row: "D35 an array", text: `[{"vendor_id":"8086"},{"vendor_id":"8087"}]`, rules: 2},
		{row: "D36", text: `[]`},
		{row: "no JSON", text: `{'vendor_id':'8086'}`, says: "double quotes"},
		{row: "a scalar", text: `5`, says: "object"},
		{row: "an array of scalars", text: `[{},"8086"]`,
			says: `device_spec, entry 2 of 2 must be an object in braces; it is "8086"`},
		{row: "the third entry", text: `[{},{},{"vendor_id":"x"}]`, says: "device_spec, entry 3 of 3: vendor_id"},
		{row: "K4 a tag of the third entry", text: `[{},{},{"live_migratable":"maybe"}]`,
			says: "device_spec, entry 3 of 3: live_migratable"},
	} {
		t.Run(c.row, func(t *testing.T) {
			rules, err := ParseSpecs(c.text)
			if c.says != "" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.says) {
					t.Errorf("got %v %v, want %s", rules, err, c.says)
				}
				return
			}
			if err != nil || len(rules) != c.rules {
				t.Errorf("got %v %v", rules, err)
			}
		})
	}
	if _, offered := (Rules{}).First(Device{}, nil); offered { // D36
		t.Error("no rules offer nothing")
	}
}

// D34, D39, D40: the tags. Every word for yes and no, in any case, for every tag that is one.
func TestTagRows(t *testing.T) {
	for _, key := range []string{"trusted", "remote_managed", "managed", "live_migratable", "one_time_use"} {
		of := func(r Rule) Flag {
			for _, tag := range r.Tags.flags() {
				if tag.key == key {
					return *tag.flag
				}
			}
			t.Fatalf("no tag %s", key)
			return Unset
		}
		for want, words := range map[Flag][]string{
			Yes: {`"TrUe"`, `"1"`, `"t"`, `"on"`, `"y"`, `"YES"`, `true`, `1`},
			No:  {`"FALSE"`, `"0"`, `"f"`, `"off"`, `"n"`, `"No"`, `false`, `0`},
		} {
			for _, word := range words {
				if got := of(rule(t, fmt.Sprintf(`{%q:%s}`, key, word))); got != want {
					t.Errorf("D34 %s %s is %q", key, word, got)
				}
			}
		}
		if got := of(rule(t, `{}`)); got != Unset {
			t.Errorf("D39 %s is %q", key, got)
		}
		for _, word := range []string{`"invalid"`, `""`, `2`, `null`, `["true"]`} {
			_, err := ParseSpecs(fmt.Sprintf(`{%q:%s}`, key, word))
			if text := fault.TextOf(err); !strings.Contains(text, key) || !strings.Contains(text, "true, t, yes, "+
				"y, on, 1, false, f, no, n, off, 0") {
				t.Errorf("D40 %s %s: %v", key, word, err)
			}
		}
	}
}

// M7 and the tables of pci.md 2.4 and 2.5: names as Placement has them, whatever blanks and case they are written with.
func TestNameRows(t *testing.T) {
	for _, c := range []struct{ row, class, traits, want string }{
		{"X2 a standard class", "pgpu", "", "PGPU"},
		{"X2 a word", "foobar", "", "CUSTOM_FOOBAR"},
		{"X2 said to be custom", "custom_foo", "", "CUSTOM_FOO"},
		{"X2 custom with a dash", "custom-foo", "", "CUSTOM_CUSTOM_FOO"},
		{"X2 a run of signs", "a###b", "", "CUSTOM_A_B"},
		{"M7 illegal after CUSTOM_", "CUSTOM_foo-bar", "", "CUSTOM_FOO_BAR"},
		{"blanks around a class", " gold ", "", "CUSTOM_GOLD"},
		{"X2 no class", "", "", "CUSTOM_PCI_8086_1515"},
		{"X2 two traits", "", "b,a", "CUSTOM_PCI_8086_1515 CUSTOM_A CUSTOM_B"},
		{"M7 blanks", "", "blue, big ,  ugly", "CUSTOM_PCI_8086_1515 CUSTOM_BIG CUSTOM_BLUE CUSTOM_UGLY"},
		{"M7 a standard trait in lower case", "", "hw_gpu_api_vulkan", "CUSTOM_PCI_8086_1515 HW_GPU_API_VULKAN"},
		{"X2 a standard trait", "", "HW_GPU_API_VULKAN", "CUSTOM_PCI_8086_1515 HW_GPU_API_VULKAN"},
		{"X2 said to be custom", "", "CUSTOM_FOO,custom_bar,CUSTOM_a", "CUSTOM_PCI_8086_1515 CUSTOM_A CUSTOM_BAR " +
			"CUSTOM_FOO"},
		{"X2 custom with a dash", "", "custom-bar", "CUSTOM_PCI_8086_1515 CUSTOM_CUSTOM_BAR"},
		{"M7 illegal after CUSTOM_", "", "CUSTOM_a-b", "CUSTOM_PCI_8086_1515 CUSTOM_A_B"},
		{"X2 signs", "", "a@!#$b123X", "CUSTOM_PCI_8086_1515 CUSTOM_A_B123X"},
		{"X2 the same twice", "", "a!@b,a###b", "CUSTOM_PCI_8086_1515 CUSTOM_A_B"},
		{"I2", "crypto", "to-the-moon,hodl", "CUSTOM_CRYPTO CUSTOM_HODL CUSTOM_TO_THE_MOON"},
	} {
		t.Run(c.row, func(t *testing.T) {
			r := rule(t, fmt.Sprintf(`{"resource_class":%q,"traits":%q}`, c.class, c.traits))
			words := []string{string(r.Class(vf(t, "0000:81:00.1", "0000:81:00.0")))}
			for _, trait := range r.Traits {
				words = append(words, string(trait))
			}
			if got := strings.Join(words, " "); got != c.want || !slices.IsSorted(words[1:]) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// The rows U1, U2, U3 and U6 of pci.md 7.9: what a request asks of a device, and addresses that are none.
func TestUtilityRows(t *testing.T) {
	d := Device{Vendor: "8086", Product: "15ab", Type: Virtual}
	for _, c := range []struct {
		row    string
		want   Requirement
		or     []Requirement
		serves bool
	}{
		{"U1 equal", Requirement{Vendor: "8086", Product: "15ab"}, nil, true},
		{"U1 another case", Requirement{Vendor: "8086", Product: "15AB"}, nil, true},
		{"U2 the second of two", Requirement{Vendor: "8086", Product: "1111"},
			[]Requirement{{Vendor: "8086", Product: "15ab"}}, true},
		{"U3 none of two", Requirement{Vendor: "8086", Product: "1111"}, []Requirement{{Vendor: "8087", Product: "15ab"}},
			false},
		{"U3 one word more", Requirement{Vendor: "8086", Product: "15ab", Type: Physical}, nil, false},
	} {
		t.Run(c.row, func(t *testing.T) {
			if why := (Request{Requirement: c.want, Alternatives: c.or}).WhyNot(d, Unset); (why == "") != c.serves {
				t.Errorf("refused %q", why)
			}
		})
	}
	for _, text := range []string{"0000:04.12:6", "0000:h4.12:6"} {
		if a, err := ParseAddress(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("U6 %s: %v %v", text, a, err)
		}
	}
	vdpa := d
	vdpa.Type = VDPA
	if why := (Request{Requirement: Requirement{Vendor: "8086"}}).WhyNot(vdpa, Unset); !strings.Contains(why, "vdpa") {
		t.Errorf("an alias is given a vDPA device: %q", why)
	}
}

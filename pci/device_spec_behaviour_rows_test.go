package pci

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestSpecRows tests the rows D1 to D27 and D34 to D40 of docs/behaviour/nova-pci.md 7.8, and M7 to M9 of 7.15, with
// one entry: whether it is valid, and which devices it matches. TestJudgeRows tests D28 to D33.
func TestSpecRows(t *testing.T) {
	// The VF 0000:0a:00.5 belongs to the PF 0000:0a:00.0, which has the interface ens5.
	pf := Device{
		Address: address(t, "0000:0a:00.0"),
		Vendor:  "8086",
		Product: "5057",
		Type:    Physical,
		Net:     []string{"ens5"},
	}
	child := vf(t, "0000:0a:00.5", "0000:0a:00.0")
	lone := Device{Address: address(t, "0001:0b:10.6"), Vendor: "8087", Product: "5058", Type: Plain}
	for _, c := range []struct{ row, text, want string }{ // want: the functions that match, or ! and a part of the error
		{"D1 an object of valid fields", `{"address":{"domain":"0000","bus":"0a","slot":"00","function":"5"}}`, "5"},
		{"D4 the exact address of a VF", `{"address":"0000:0a:00.5"}`, "5"},
		{"D4 any domain", `{"address":"*:0a:00.5"}`, "5"},
		{"D4 any bus", `{"address":"0000:*:00.5"}`, "5"},
		{"D4 any slot", `{"address":"0000:0a:*.5"}`, "5"},
		{"D4 any function", `{"address":"0000:0a:00.*"}`, "0 5"},
		{"D5 another domain", `{"address":"0002:0a:00.5"}`, ""},
		{"D5 another bus", `{"address":"0000:0c:00.5"}`, ""},
		{"D5 another slot", `{"address":"0000:0a:01.5"}`, ""},
		{"D5 another function", `{"address":"0000:0a:00.4"}`, ""},
		{"D6 too many fields", `{"address":"00:0000:0a:00.5"}`, "!more than domain, bus and slot"},
		{"D7 expressions, with wildcards", `{"address":{"domain":".*","bus":"0a","slot":".*","function":"[5-6]"}}`, "5"},
		{"D7 expressions, with ranges", `{"address":{"domain":"0000","bus":"0a","slot":"[0-3]","function":"[4-5]"}}`, "5"},
		{"D8 another bus", `{"address":{"bus":"0c","function":"[5-6]"}}`, ""},
		{"D8 the slot matches, but not the bus", `{"address":{"domain":"0000","bus":"02","slot":"[0-3]","function":"5"}}`,
			""},
		{"D9 domain is not an expression", `{"address":{"domain":"*"}}`, "!is not a regular expression"},
		{"D9 bus is not an expression", `{"address":{"bus":"*"}}`, "!is not a regular expression"},
		{"D9 function is not an expression", `{"address":{"function":"[6[-7]"}}`, "!is not a regular expression"},
		{"D11 two buses", `{"address":"0000:0a:0b:00.5"}`, "!more than domain, bus and slot"},
		// The function is not valid either; the first error is reported.
		{"D12 slot and function", `{"address":"0000:h4.12:6"}`, `!slot "h4" of address "0000:h4.12:6"`},
		{"D12 the function", `{"address":"0000:04.12:6"}`, `!function "12:6"`},
		{"D2 D13 function above 7", `{"address":"0000:0a:00.8"}`,
			`!function "8" of address "0000:0a:00.8" must be "*" or a hexadecimal number of at most 7`},
		{"D2 D13 bus above FF", `{"address":"0000:100:00.5"}`,
			`!bus "100" of address "0000:100:00.5" must be "*" or a hexadecimal number of at most FF`},
		{"D2 D13 slot above 1F", `{"address":"0000:0a:20.5"}`,
			`!slot "20" of address "0000:0a:20.5" must be "*" or a hexadecimal number of at most 1F`},
		{"D2 D13 domain above FFFF", `{"address":"10000:0a:00.5"}`, ""},
		{"D2 D13 domain above FFFFFFFF", `{"address":"100000000:0a:00.5"}`, "!at most FFFFFFFF"},
		{"D14 any vendor", `{"vendor_id":"*"}`, "0 5 6"},
		{"D14 an empty entry", `{}`, "0 5 6"},
		{"D15 the bus only", `{"address":":0a:00."}`, "0 5"},
		{"D15 the function only", `{"address":".5"}`, "5"},
		{"D16 the exact address of a PF", `{"address":"0000:0a:00.0"}`, "0 5"},
		{"D16 narrowed to the VF", `{"address":"0000:0a:00.0","product_id":"1515"}`, "5"},
		{"D16 narrowed to the PF", `{"address":"0000:0a:00.0","product_id":"5057"}`, "0"},
		{"D18 a range of functions", `{"address":{"domain":"0000","bus":"0a","slot":"00","function":"[5-6]"}}`, "5"},
		{"D18 no bus", `{"address":{"domain":"0000","slot":"00","function":"[5-6]"}}`, "5"},
		{"D18 no function", `{"address":{"domain":"0000","bus":"0a","slot":"00"}}`, "0 5"},
		{"D19 a range without the function", `{"address":{"domain":"0000","bus":"0a","slot":"00","function":"[6-7]"}}`, ""},
		{"D20 an array", `{"address":["0000:0a:00.5"]}`, "!object of regular expressions"},
		{"D20 a number", `{"address":5}`, "!object of regular expressions"},
		{"D21 the exact address of a PF as expressions",
			`{"address":{"domain":"0000","bus":"0a","slot":"00","function":"0"}}`, "0 5"},
		{"D22 vendor", `{"vendor_id":"8085","address":"0000:0a:00.5"}`, ""},
		{"D22 product", `{"product_id":"1516","address":"0000:0a:00.5"}`, ""},
		{"D23 vendor_id with five digits", `{"vendor_id":"80860"}`,
			`!vendor_id is "80860"; write a hexadecimal number of at most FFFF`},
		{"D23 product_id with five digits", `{"product_id":"50570"}`,
			`!product_id is "50570"; write a hexadecimal number of at most FFFF`},
		{"vendor_id is not hexadecimal", `{"vendor_id":"80g6"}`, `!vendor_id is "80g6"`},
		{"vendor_id is a JSON number", `{"vendor_id":8086}`, "!double quotes"},
		{"product_id is null", `{"product_id":null}`, "!double quotes"},
		{"an expression is a JSON number", `{"address":{"bus":10}}`, "!double quotes"},
		{"D25 an empty devname", `{"devname":""}`, "0 5 6"},
		{"D26 the interface of the PF", `{"devname":"ens5"}`, "0 5"},
		{"D26 an unknown interface", `{"devname":"ens6"}`, ""},
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
		{"devname and an empty address", `{"devname":"ens5","address":""}`, "0 5"},
		{"devname and a null address", `{"devname":"ens5","address":null}`, "0 5"},
		{"devname and an address without parts", `{"devname":"ens5","address":{ }}`, "0 5"},
		{"an empty devname and an address of wildcards", `{"devname":"","address":"*:*:*.*"}`, "0 5 6"},
		{"D27 vendor and product", `{"vendor_id":"8087","product_id":"5058"}`, "6"},
		{"D37 any domain and function", `{"address":"*:0b:10.*"}`, "6"},
		{"D37 another slot", `{"address":"*:0b:11.*"}`, ""},
		{"D37 expressions", `{"address":{"domain":".*","bus":"0b","slot":"10","function":"[6-7]"}}`, "6"},
		{"D37 expressions, another function", `{"address":{"domain":".*","bus":"0b","slot":"10","function":"[2-3]"}}`, ""},
		{"M8 from the start, not to the end", `{"address":{"domain":"00","slot":"1"}}`, "6"},
		{"M8 one digit is the whole function", `{"address":{"function":"5"}}`, "5"},
		{"M8 an unknown key", `{"address":{"func":"5"}}`, `!unknown key "func"`},
		{"an unknown tag", `{"numa_node":"0"}`, `!unknown key "numa_node"`},
		{"M9 a tunnelled network", `{"physical_network":null}`, "0 5 6"},
	} {
		t.Run(c.row, func(t *testing.T) {
			rules, err := ParseSpecs(c.text)
			if part, refused := strings.CutPrefix(c.want, "!"); refused {
				text := strings.ReplaceAll(fault.TextOf(err), `\"`, `"`)
				if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(text, "device_spec") ||
					!strings.Contains(text, part) {
					t.Errorf("got %v %v, want an Invalid error with %s", rules, err, part)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var matches []string
			for _, d := range []Device{pf, child, lone} {
				var parent *Device
				if d.Parent != nil {
					parent = &pf
				}
				if _, matched := rules.First(d, parent); matched {
					matches = append(matches, fmt.Sprint(d.Address.Func))
				}
			}
			if got := strings.Join(matches, " "); got != c.want {
				t.Errorf("matches %q, want %q", got, c.want)
			}
		})
	}
}

// TestSpecListRows tests objects and arrays of entries, and that the error of an entry contains its number (D35,
// D36, K4).
func TestSpecListRows(t *testing.T) {
	for _, c := range []struct {
		row, text string
		rules     int
		refused   string
	}{
		{row: "D35 an object", text: `{"vendor_id":"8086"}`, rules: 1},
		{row: "D35 an array", text: `[{"vendor_id":"8086"},{"vendor_id":"8087"}]`, rules: 2},
		{row: "D36 an empty array", text: `[]`},
		{row: "not JSON", text: `{'vendor_id':'8086'}`, refused: "double quotes"},
		{row: "a scalar", text: `5`, refused: "object"},
		{row: "an array of scalars", text: `[{},"8086"]`,
			refused: `device_spec, entry 2 of 2 must be an object in braces; it is "8086"`},
		{row: "the third entry", text: `[{},{},{"vendor_id":"x"}]`, refused: "device_spec, entry 3 of 3: vendor_id"},
		{row: "K4 a tag of the third entry", text: `[{},{},{"live_migratable":"maybe"}]`,
			refused: "device_spec, entry 3 of 3: live_migratable"},
	} {
		t.Run(c.row, func(t *testing.T) {
			rules, err := ParseSpecs(c.text)
			if c.refused != "" {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.refused) {
					t.Errorf("got %v %v, want %s", rules, err, c.refused)
				}
				return
			}
			if err != nil || len(rules) != c.rules {
				t.Errorf("got %v %v", rules, err)
			}
		})
	}
	if _, offered := (Rules{}).First(Device{}, nil); offered { // D36
		t.Error("a device is offered without rules")
	}
}

// TestTagRows tests every boolean word, in any case, for every boolean tag (D34, D39, D40).
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
			if text := fault.TextOf(err); !strings.Contains(text, key) ||
				!strings.Contains(text, "true, t, yes, y, on, 1, false, f, no, n, off, 0") {
				t.Errorf("D40 %s %s: %v", key, word, err)
			}
		}
	}
}

package pci

import (
	"strings"
	"testing"
)

// nics returns the devices of a host: a bridge, two cards for remote_managed (the VFs of the second have no serial
// number), a device without SR-IOV, and a vDPA device.
func nics(t *testing.T) []Device {
	with := func(d Device, serial string) Device { d.Serial = serial; return d }
	pf := func(at string) Device {
		return Device{
			Address:   address(t, at),
			Vendor:    "15b3",
			Product:   "a2d6",
			Type:      Physical,
			TotalVFs:  2,
			VFProduct: "101e",
			Class:     0x020000,
		}
	}
	mlx := func(own, of string) Device {
		d := vf(t, own, of)
		d.Vendor, d.Product = "15b3", "101e"
		return d
	}
	first := pf("0000:81:00.0")
	first.Net = []string{"ens1"}
	return []Device{
		{Address: address(t, "0000:80:00.0"), Vendor: "8086", Product: "0b00", Type: Plain, Class: 0x060400},
		with(first,
			"S1"), with(mlx("0000:81:00.1", "0000:81:00.0"), "S1"), with(mlx("0000:81:00.2", "0000:81:00.0"), "S1"),
		pf("0000:82:00.0"), mlx("0000:82:00.1", "0000:82:00.0"),
		{Address: address(t, "0000:83:00.0"), Vendor: "10de", Product: "20b0", Type: Plain, Class: 0x030200},
		{
			Address: address(t, "0000:84:00.2"),
			Vendor:  "15b3",
			Product: "1018",
			Type:    VDPA,
			Parent:  &Address{Bus: 0x84},
			Class:   0x020000,
		},
	}
}

// TestJudgeRows tests the rows D28 to D33 of docs/behaviour/nova-pci.md 7.8, and the warnings that Nova does not have:
// entries that match nothing or are never reached.
func TestJudgeRows(t *testing.T) {
	for _, c := range []struct {
		row   string
		text  string
		parts []string // parts of the finding; the first is WRONG if it is an error. None: no finding
	}{
		{"D28 an unknown interface", `{"devname":"eth9","remote_managed":true}`,
			[]string{"WRONG", `no interface "eth9"`, "PF"}},
		{"D29 the product of the PF", `{"address":"0000:81:00.0","product_id":"a2d6","remote_managed":true}`,
			[]string{"WRONG", "the PF 0000:81:00.0 itself", `product_id "101e"`}},
		{"D29 any product, any vendor", `{"address":"0000:81:00.0","remote_managed":true}`, []string{"WRONG", "itself"}},
		{"D29 any product, the vendor",
			`{"address":"0000:81:00.0","vendor_id":"15b3","product_id":"*","remote_managed":true}`, []string{"WRONG", "itself"}},
		{"D29 the PF by its interface", `{"devname":"ens1","remote_managed":true}`, []string{"WRONG", "itself"}},
		{"D29 the PF by expressions",
			`{"address":{"domain":"0000","bus":"81","slot":"00","function":"0"},"remote_managed":true}`,
			[]string{"WRONG", "itself"}},
		{"D30 the product of the VFs, the vendor",
			`{"address":"0000:81:00.0","vendor_id":"15b3","product_id":"101e","remote_managed":true}`, nil},
		{"D30 the product of the VFs, any vendor", `{"address":"0000:81:00.0","product_id":"101e","remote_managed":true}`,
			nil},
		{"D30 by the interface", `{"devname":"ens1","product_id":"101e","remote_managed":true}`, nil},
		{"D30 a VF by its address", `{"address":"0000:81:00.1","remote_managed":true}`, nil},
		{"D31 another vendor", `{"address":"0000:81:00.0","vendor_id":"8086","product_id":"101e","remote_managed":true}`,
			[]string{"WRONG", "neither the PF 0000:81:00.0 (15b3:a2d6) nor its VFs", `"101e"`}},
		{"D31 another product", `{"address":"0000:81:00.0","product_id":"1515","remote_managed":true}`,
			[]string{"WRONG", "neither"}},
		{"D32 not managed remotely", `{"address":"0000:81:00.0","remote_managed":false}`, nil},
		{"D33 no serial number", `{"address":"0000:82:00.1","remote_managed":true}`, []string{"matches no device",
			"15b3:101e", "no serial number"}},
		{"M8 any address with a function", `{"address":{"function":"1"}}`, nil},
		{"no device at the address", `{"address":"0000:99:00.0"}`, []string{"matches no device of this host"}},
		{"other numbers at the address", `{"address":"0000:83:00.0","product_id":"20b1"}`, []string{"matches no device",
			"0000:83:00.0 is 10de:20b0"}},
		{"numbers of no device", `{"vendor_id":"8086","product_id":"10d4"}`, []string{"matches no device of this host$"}},
		{"the device has another address", `{"address":"0000:84:00.0","vendor_id":"10de"}`, []string{"matches no device",
			"at 0000:83:00.0"}},
		{"an unknown interface without remote_managed", `{"devname":"eth9"}`, []string{"matches no device"}},
		{"a bridge", `{"address":"0000:80:00.0"}`, []string{"nothing but bridges", "0000:80:00.0"}},
		{"never reached", `[{"vendor_id":"10de"},{"product_id":"20b0","traits":"fast"}]`, []string{"device_spec at f:2",
			"never reached", "0000:83:00.0", `at f:1, {"vendor_id": "10de"}`}},
		{"never reached, by two before it",
			`[{"address":"0000:81:00.1"},{"address":"0000:81:00.2"},{"address":{"bus":"81","function":"[12]"}}]`,
			[]string{"f:3", "never reached"}},
		{"vDPA for an alias", `{"product_id":"1018"}`, []string{"0000:84:00.2", "vDPA", "physical_network"}},
		{"vDPA for ports", `{"product_id":"1018","physical_network":null}`, nil},
		{"shapes of a plain device", `{"address":"0000:83:00.0","shapes":["pf","vf"],"resource_class":"A"}`,
			[]string{"WRONG", "0000:83:00.0 is a type-PCI", "remove shapes"}},
		{"shapes of a VF", `{"address":"0000:81:00.1","shapes":["pf","vf"],"resource_class":"A"}`,
			[]string{"WRONG", "0000:81:00.1 is a VF", "its PF, 0000:81:00.0"}},
		{"shapes of a PF", `{"address":"0000:81:00.0","shapes":["pf","vf"],"resource_class":"A"}`, nil},
		{"reached in part", `[{"address":"0000:81:00.1","traits":"a"},{"product_id":"101e"}]`, nil},
	} {
		t.Run(c.row, func(t *testing.T) {
			rules, err := ParseSpecs(c.text)
			if err != nil {
				t.Fatal(err)
			}
			for i := range rules {
				rules[i].At = "f:" + string(rune('1'+i))
			}
			found := rules.Judge(nics(t))
			if refused := rules.WhyNot(nics(t)); (refused != "") != (len(found) > 0 && found[0].Wrong) {
				t.Errorf("refused %q", refused)
			}
			if len(c.parts) == 0 {
				if len(found) > 0 {
					t.Errorf("%+v", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("%d findings: %+v", len(found), found)
			}
			text := found[0].Sentence
			if found[0].Wrong {
				text = "WRONG " + text
			}
			for _, part := range c.parts {
				if !strings.Contains(text+"$", part) {
					t.Errorf("%q does not contain %q", text, part)
				}
			}
			if found[0].Wrong != (c.parts[0] == "WRONG") || !strings.HasPrefix(found[0].Sentence,
				"device_spec at "+found[0].At+", {") {
				t.Errorf("%+v", found[0])
			}
		})
	}
}

// TestRemoteManaged tests which devices a rule with remote_managed matches, and which of them need a serial number
// (D33).
func TestRemoteManaged(t *testing.T) {
	var serial, matched []string
	rules := Rules{rule(t, `{"product_id":"101e","remote_managed":"yes"}`)}
	for _, d := range nics(t) {
		if rules.NeedSerial(d) {
			serial = append(serial, d.Address.String())
		}
		if rules[0].Match(d, nil) {
			matched = append(matched, d.Address.String())
		}
	}
	if got := strings.Join(serial, " "); got != "0000:81:00.1 0000:81:00.2 0000:82:00.1" {
		t.Errorf("serial numbers needed: %s", got)
	}
	if got := strings.Join(matched, " "); got != "0000:81:00.1 0000:81:00.2" {
		t.Errorf("matched: %s", got)
	}
	if (Rules{rule(t, `{"product_id":"101e","remote_managed":"no"}`)}).NeedSerial(nics(t)[2]) {
		t.Error("a serial number is needed without remote_managed")
	}
}

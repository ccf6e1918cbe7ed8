package inventoryfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/powervm/ioslot"
)

// gpu is a slot with all properties.
func gpu(index ioslot.Index, name string) ioslot.Slot {
	return ioslot.Slot{Index: index, Name: name, Description: "3D Controller", Vendor: ioslot.Known(4318),
		Device: ioslot.Known(7601), SubsysVendor: ioslot.Known(4116), SubsysDevice: ioslot.Known(1202),
		Class: ioslot.Known(770), Revision: ioslot.Known(161)}
}

func rules(t *testing.T, layers ...string) Rules {
	t.Helper()
	var files []File
	for _, text := range layers {
		files = append(files, parse(t, text))
	}
	return Merge(files...)
}

// allowed returns the indices of the slots that guests may have.
func allowed(t *testing.T, r Rules, slots ...ioslot.Slot) (list []string) {
	t.Helper()
	decisions, problems := r.DecideAll(slots)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, d := range decisions {
		if _, ok := d.Allowed(); ok {
			list = append(list, d.Slot.Index.String())
		}
	}
	return list
}

func TestWireNumbersMatchHexadecimalValues_R9_R10_R11(t *testing.T) {
	s := gpu(470810337, "U78CB.001.WZS0JZB-P1-C12")
	for _, id := range []string{"vendor_id: 10DE", "device_id: 1DB1", "subsys_vendor_id: 1014", "subsys_device_id: 04B2",
		"class: 0302", "revision_id: A1", "drc_index: 1C0FFEE1", "drc_name: U78CB.001.WZS0JZB-P1-C12"} {
		if got := allowed(t, rules(t, "a:\n  identification: {"+id+"}\n"), s); len(got) != 1 {
			t.Errorf("%s does not match", id)
		}
	}
	for _, id := range []string{"vendor_id: 10DF", "revision_id: '01'", "drc_index: 1C0FFEE2",
		"drc_name: u78cb.001.wzs0jzb-p1-c12", "drc_name: U78CB.001.WZS0JZB-P1-C1"} { // R12: exact, with case
		if got := allowed(t, rules(t, "a:\n  identification: {"+id+"}\n"), s); len(got) != 0 {
			t.Errorf("%s matches", id)
		}
	}
}

func TestOnlyNamedSlotsAreAllowed_R3_R14_R15(t *testing.T) {
	a, b := gpu(1, "A"), gpu(2, "B")
	b.Device = ioslot.Known(1)
	if got := allowed(t, Rules{}, a, b); got != nil {
		t.Errorf("without a file: %v", got)
	}
	if got := allowed(t, rules(t, "x:\n  identification: {vendor_id: 10DE, device_id: 1DB1}\n"), a, b); !slices.Equal(got,
		[]string{"00000001"}) {
		t.Errorf("all conditions must be met: %v", got)
	}
	if got := allowed(t, rules(t, "x:\n  identification: {vendor_id: 10DE}\n"), a, b); len(got) != 2 {
		t.Errorf("a paragraph may match several slots: %v", got)
	}
	if got := allowed(t, rules(t, "x:\n  identification: {vendor_id: ABCD}\n"), a, b); got != nil {
		t.Errorf("a paragraph may match no slot: %v", got)
	}
}

// Two slots may have one DRC name; a paragraph with it allows both, and one with the index only one.
func TestDRCNameMayIdentifySeveralSlots_C9(t *testing.T) {
	for id, want := range map[string]int{"drc_name: A": 2, "drc_name: A, drc_index: '00000002'": 1} {
		if got := allowed(t, rules(t, "a:\n  identification: {"+id+"}\n"), gpu(1, "A"), gpu(2, "A"), gpu(3, "B")); len(got) !=
			want {
			t.Errorf("%s: %v", id, got)
		}
	}
}

func TestAbsentPropertiesMatchNothing_C12(t *testing.T) {
	s := gpu(1, "")
	s.SubsysVendor = ioslot.Number{}
	for _, id := range []string{"subsys_vendor_id: '0000'", "subsys_vendor_id: ????", "drc_name: '*'"} {
		if got := allowed(t, rules(t, "a:\n  identification: {"+id+"}\n"), s); got != nil {
			t.Errorf("%s matches", id)
		}
	}
}

func TestOverlappingParagraphsNameTheSlotAndBoth_R16_C18(t *testing.T) {
	r := rules(t, "one:\n  identification: {vendor_id: 10DE}\ntwo:\n  identification: {drc_name: 'A*'}\n"+
		"no:\n  identification: {drc_name: A1}\n  allow: false\n")
	empty := gpu(3, "A3")
	empty.Description = "Empty slot"
	decisions, problems := r.DecideAll([]ioslot.Slot{gpu(1, "A1"), gpu(2, "B2"), empty})
	if len(problems) != 1 || problems[0].At.String() != "inv.yaml:3:1" {
		t.Fatalf("%v", problems)
	}
	for _, part := range []string{"00000001 (A1)", `"one" (inv.yaml:1:1)`, `"two" (inv.yaml:3:1)`} {
		if !strings.Contains(problems[0].Sentence, part) {
			t.Errorf("%s lacks %s", problems[0], part)
		}
	}
	if _, ok := decisions[1].Allowed(); !ok {
		t.Error("the other slot is not allowed")
	}
}

func TestDeniedSlotsAreRemoved_G1(t *testing.T) {
	r := rules(t, "no1:\n  identification: {drc_name: A2}\n  allow: false\nyes:\n  identification: {vendor_id: 10DE}\n"+
		"no2:\n  identification: {drc_name: A?}\n  allow: false\n")
	if got := allowed(t, r, gpu(1, "A1"), gpu(2, "A2"), gpu(3, "B3")); !slices.Equal(got, []string{"00000003"}) {
		t.Errorf("%v", got)
	}
}

func TestWildcards_G2(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"U78CB.001.WZS0JZB-P1-*", "U78CB.001.WZS0JZB-P1-C12", true}, {"U78CB.001.WZS0JZB-P1-*", "U78CB.001.WZS0JZB-P2-C12",
			false},
		{"U78CB.001.WZS0JZB-P1-*", "U78CB.001.WZS0JZB-P10-C12", false}, {"P1-C1*", "P1-C1", true}, {"P1-C1*", "P1-C19", true},
		{"*", "", true}, {"", "", true}, {"?", "", false}, {"a*b*c", "aXbXbYc", true}, {"a*b*c", "aXcXb", false},
		{"**a", "a", true}, {"a", "ab", false}, {"b", "ab", false}, {"a?c", "abc", true}, {"*ab", "aab", true},
		{"[a]", "a", false},
	} {
		if got := glob(c.pattern, c.text); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.text, got)
		}
	}
	if got := allowed(t, rules(t, "a:\n  identification: {class: 03??}\n"), gpu(1, "A")); len(got) != 1 {
		t.Error("03?? does not match 0302")
	}
}

func TestSlotsWithoutADeviceAreNotAllowed_C11_C12_G7(t *testing.T) {
	empty, ffff, zero, sriov := gpu(1, "A1"), gpu(2, "A2"), gpu(3, "A3"), gpu(4, "A4")
	empty.Description, ffff.Vendor, zero.Vendor, sriov.SRIOV = "Empty slot", ioslot.Known(0xffff), ioslot.Known(0), true
	if got := allowed(t, rules(t, "a:\n  identification: {drc_name: A*}\n"), empty, ffff, zero, sriov); got != nil {
		t.Errorf("%v", got)
	}
}

// A layer for the cloud, and one of a host that replaces a paragraph and forbids a slot, have the same effect as one
// file with the result.
func TestLayersEqualTheFlattenedFile_G4(t *testing.T) {
	cloud := "gpus:\n  identification: {vendor_id: 10DE}\n  resource_class: CUSTOM_GPU\nnics:\n  identification: " +
		"{class: '0200'}\n"
	host := "gpus:\n  identification: {drc_name: A*}\n  resource_class: CUSTOM_FAST\nnot:\n  identification: {drc_name: " +
		"A2}\n  allow: false\n"
	flat := "gpus:\n  identification: {drc_name: A*}\n  resource_class: CUSTOM_FAST\nnics:\n  identification: {class: " +
		"'0200'}\n" +
		"not:\n  identification: {drc_name: A2}\n  allow: false\n"
	nic := gpu(4, "N4")
	nic.Class = ioslot.Known(0x200)
	slots := []ioslot.Slot{gpu(1, "A1"), gpu(2, "A2"), gpu(3, "B3"), nic}
	layered, one := rules(t, cloud, host), rules(t, flat)
	got, _ := layered.DecideAll(slots)
	want, _ := one.DecideAll(slots)
	for i := range slots {
		g, gok := got[i].Allowed()
		w, wok := want[i].Allowed()
		if gok != wok || g.Class != w.Class || g.Name != w.Name {
			t.Errorf("%s: %+v, flattened %+v", slots[i], g, w)
		}
	}
	if names := allowed(t, layered, slots...); !slices.Equal(names, []string{"00000001", "00000004"}) {
		t.Errorf("%v", names)
	}
}

func TestExplain_G4(t *testing.T) {
	r := rules(t, "gpus:\n  identification: {vendor_id: 1014}\n", "gpus:\n  identification: {vendor_id: 10DE}\n"+
		"nics:\n  identification: {class: '0200'}\nno:\n  identification: {drc_index: '00000002'}\n  allow: false\n")
	for index, want := range map[ioslot.Index]string{
		1: `slot 00000001 (A): offered by paragraph "gpus" (inv.yaml:1:1)
paragraph "gpus" (inv.yaml:1:1) allows it
paragraph "nics" (inv.yaml:3:1) does not match: its class is 0302, not 0200
paragraph "no" (inv.yaml:5:1) does not match: its drc_index is 00000001, not 00000002
paragraph "gpus" (inv.yaml:1:1) is replaced by the one at inv.yaml:1:1`,
		2: `slot 00000002 (A): not offered, because paragraph "no" (inv.yaml:5:1) denies it
paragraph "gpus" (inv.yaml:1:1) allows it
paragraph "nics" (inv.yaml:3:1) does not match: its class is 0302, not 0200
paragraph "no" (inv.yaml:5:1) denies it
paragraph "gpus" (inv.yaml:1:1) is replaced by the one at inv.yaml:1:1`,
	} {
		if got := strings.Join(r.Explain(gpu(index, "A")), "\n"); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	s := gpu(3, "A")
	s.Class = ioslot.Known(0x200)
	if got := r.Explain(s)[0]; !strings.Contains(got, "two paragraphs allow it") {
		t.Error(got)
	}
	s.Description = "Empty slot"
	if got := r.Explain(s)[0]; !strings.Contains(got, "is empty") {
		t.Error(got)
	}
	if got := (Rules{}).Explain(gpu(3, "A"))[0]; !strings.Contains(got, "no paragraph allows it") {
		t.Error(got)
	}
}

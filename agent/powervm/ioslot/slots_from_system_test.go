package ioslot

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/resource"
)

// load decodes the systems of a recorded answer.
func load(t *testing.T, name string) (systems []uom.ManagedSystem) {
	t.Helper()
	data, err := os.ReadFile("../../../internal/novalink/systems/" + name)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := uom.Systems(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		systems = append(systems, e.Object)
	}
	return systems
}

func TestOldFirmware_S9_S10_S12(t *testing.T) {
	s := FromSystem(load(t, "old_firmware.xml")[0], nil)
	if s.Name != "old" || s.UUID != "0AA0C1F8-1111-3333-4444-000000000001" || !s.Reported || s.Incomplete ||
		len(s.Slots) != 2 || s.Problems != nil {
		t.Fatalf("%+v", s)
	}
	empty, sas := s.Slots[0], s.Slots[1]
	if empty.Index.String() != "01234560" || empty.WhyNoDevice() != "is empty" { // numbers are padded
		t.Errorf("%+v", empty)
	}
	want := Slot{Index: 0x21030015, Name: "U78CB.001.XX0001-P1-C14", Description: `PCIe3 x8 "SAS" & RAID`,
		Vendor: Known(842), SubsysVendor: Known(4116), SubsysDevice: Known(1023), Class: Known(260), Revision: Known(2),
		BusGrouping: true}
	codes := sas.FeatureCodes
	sas.FeatureCodes = nil
	if !slices.Equal(codes, []string{"EN0H", "EN0J", "57D7"}) || sas.String() != want.String() ||
		sas.Device.Known || sas.Vendor != want.Vendor || sas.SubsysVendor != want.SubsysVendor || sas.Class != want.Class ||
		sas.SubsysDevice != want.SubsysDevice || sas.Revision != want.Revision || !sas.BusGrouping ||
		sas.Description != want.Description || sas.Owner.Kind != OwnerUnknown || sas.WhyNoDevice() != "" {
		t.Errorf("%v %+v", codes, sas)
	}
}

func TestOldFirmwareHasTheOwnersOfThePartitions_S10(t *testing.T) {
	m := load(t, "old_firmware.xml")[0]
	if OwnersReported(m) {
		t.Error("owners are reported")
	}
	profile := func(index string) uom.ProfileSlot { return uom.ProfileSlot{Slot: uom.IOSlot{Index: index}} }
	s := FromSystem(m, []uom.Partition{{ID: "3", Name: "lp", UUID: "abc", Slots: []uom.ProfileSlot{profile("553844757"),
		profile("x")}}})
	if got := s.Slots[1].Owner; got.Kind != Owned || got.PartitionID != 3 || got.UUID != "ABC" || got.String() !=
		"partition 3 (lp)" {
		t.Errorf("%+v", got)
	}
	if got := s.Slots[0].Owner; got.Kind != Unowned {
		t.Errorf("%+v", got)
	}
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0].String(), `partition lp: its slot index "x"`) {
		t.Errorf("%v", s.Problems)
	}
	if got := FromSystem(m, []uom.Partition{}).Slots[1].Owner; got.Kind != Unowned { // a system without partitions
		t.Errorf("%+v", got)
	}
}

// A server that does not promise owners may report one. That slot has it, and the others stay unknown.
func TestReportedOwnerCountsWithoutTheCapability_S10(t *testing.T) {
	m := load(t, "old_firmware.xml")[0]
	m.IO.Slots.Slots[0].PartitionID, m.IO.Slots.Slots[0].PartitionName = "2", "vios1"
	for _, partitions := range [][]uom.Partition{nil, {}} {
		s := FromSystem(m, partitions)
		if got := s.Slots[1].Owner; got.String() != "partition 2 (vios1)" {
			t.Errorf("%+v", got)
		}
		if got := s.Slots[0].Owner.Kind; got != map[bool]Ownership{true: OwnerUnknown, false: Unowned}[partitions == nil] {
			t.Errorf("the other slot: %v", got)
		}
	}
}

func TestConsoleWithTwoSystems_S8_S10_S11_S15_S16(t *testing.T) {
	systems := load(t, "management_console.xml")
	one, two := FromSystem(systems[0], nil), FromSystem(systems[1], nil)
	if len(one.Slots) != 3 || one.Problems != nil { // those under buses are the same slots
		t.Fatalf("%+v", one)
	}
	owned, channel, sriov := one.Slots[0], one.Slots[1], one.Slots[2]
	if owned.Owner != (Owner{Kind: Owned, PartitionID: 2, Name: "vios1", Type: "Virtual IO Server",
		UUID: "0ABCDEF0-0000-4000-8000-00000000000A"}) || owned.SRIOV || owned.WhyNoDevice() != "" {
		t.Errorf("%+v", owned)
	}
	if channel.Owner.Kind != Unowned || !channel.Unassignable || channel.WhyNoDevice() == "" ||
		channel.Name != owned.Name {
		t.Errorf("%+v", channel)
	}
	if sriov.Owner.Kind != Unowned || !sriov.SRIOV || !strings.Contains(sriov.WhyNoDevice(), "SR-IOV") {
		t.Errorf("%+v", sriov)
	}
	if two.UUID != "BBBBBBBB-0000-0000-0000-000000000002" || len(two.Slots) != 1 || two.Slots[0].Index != owned.Index ||
		two.Slots[0].Owner.Kind != OwnerUnknown {
		t.Errorf("%+v", two)
	}
}

func TestMissingContainerIsNotAnEmptyOne_S8(t *testing.T) {
	for want, m := range map[string]uom.ManagedSystem{"": {}, " ": {IO: &uom.IOConfiguration{}}} {
		if s := FromSystem(m, nil); s.Reported {
			t.Errorf("%q %+v", want, s)
		}
	}
	if s := FromSystem(uom.ManagedSystem{IO: &uom.IOConfiguration{Slots: &uom.IOSlots{}}}, nil); !s.Reported ||
		len(s.Slots) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestMalformedNumbersCountAsAbsent_S9(t *testing.T) {
	s := FromSystem(uom.ManagedSystem{IO: &uom.IOConfiguration{Slots: &uom.IOSlots{Slots: []uom.IOSlot{
		{Index: "1", Vendor: "0x10DE", Device: "65536", Class: "-1", Revision: "256", SubsysVendor: " "},
		{Index: "4294967296"}, {Index: ""}, {Index: "1", Vendor: "4318"}}}}}, nil)
	if len(s.Slots) != 1 || !s.Incomplete || len(s.Problems) != 7 {
		t.Fatalf("%+v", s)
	}
	for _, k := range Keys() {
		if text, ok := s.Slots[0].Property(k); ok && k != DRCIndex {
			t.Errorf("%s is %s", k, text)
		}
	}
}

func TestSlotsWithoutADevice_S11_S12_S13(t *testing.T) {
	for text, s := range map[string]Slot{"is empty": {Description: "Empty slot", Vendor: Known(4318)},
		"is empty: its vendor is FFFF": {Vendor: Known(0xffff)}, "has no known adapter: its vendor is 0000": {
			Description: "Unknown", Vendor: Known(0)}} {
		if got := s.WhyNoDevice(); got != text {
			t.Errorf("%+v: %q", s, got)
		}
	}
	if got := (Slot{}).WhyNoDevice(); got != "" { // firmware without PCI registers: the file may name the index
		t.Error(got)
	}
}

func TestGeneratedTraits_R30_R38_C5(t *testing.T) {
	s := Slot{Index: 470810337, Name: "U78CB.001.WZS0JZB-P1-C12", Vendor: Known(4318), Device: Known(7601),
		SubsysVendor: Known(4116), SubsysDevice: Known(1202), Class: Known(770), Revision: Known(161)}
	const p = "CUSTOM_POWERVM_IOSLOT_"
	want := []resource.Trait{p + "VENDOR_ID_10DE", p + "DEVICE_ID_1DB1", p + "SUBSYS_VENDOR_ID_1014",
		p + "SUBSYS_DEVICE_ID_04B2", p + "CLASS_0302", p + "REVISION_ID_A1", p + "DRC_INDEX_1C0FFEE1",
		p + "DRC_NAME_U78CB_001_WZS0JZB_P1_C12"}
	if got := s.Traits(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, trait := range want {
		if !IsGenerated(trait) {
			t.Errorf("%s is not generated", trait)
		}
	}
	if got := (Slot{Index: 1, Name: strings.Repeat("X", 255)}).Traits(); len(got) != 1 { // too long for Placement
		t.Errorf("%v", got)
	}
	for text, want := range map[string]string{"a--b..c": "A_B_C", "-a-": "_A_", "ä": "_", "": "", "a_b": "A_B"} {
		if got := normalize(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestIndexHasEightUpperCaseDigits(t *testing.T) {
	for _, index := range []Index{0, 1, 19088736, 470810337, 0xffffffff} {
		if got, ok := ParseIndex(index.String()); !ok || got != index {
			t.Errorf("%s: %v %v", index, got, ok)
		}
	}
	for _, text := range []string{"", "1C0FFEE", "1c0ffee1", "01C0FFEE1", "1C0FFEEG", " C0FFEE1", "+C0FFEE1"} {
		if got, ok := ParseIndex(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

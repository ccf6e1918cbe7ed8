package slotsurvey

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

const rootID provider.ID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"

// The slots of the test system.
const (
	gpu1  ioslot.Index = 0x1C0FFEE1
	gpu2  ioslot.Index = 0x1C0FFEE2
	other ioslot.Index = 0x01234560
)

const gpuFile = "gpus:\n  identification: {vendor_id: 10DE}\n  resource_class: CUSTOM_GPU\n  traits: [CUSTOM_FAST]\n"

// slot returns a free slot with a GPU.
func slot(index ioslot.Index, name string) ioslot.Slot {
	return ioslot.Slot{Index: index, Name: name, Description: "3D Controller", Vendor: ioslot.Known(4318),
		Device: ioslot.Known(7601), SubsysVendor: ioslot.Known(4116), SubsysDevice: ioslot.Known(1202),
		Class: ioslot.Known(770), Revision: ioslot.Known(161), Owner: ioslot.Owner{Kind: ioslot.Unowned}}
}

// facts returns a host with two GPUs and one slot that only its index identifies.
func facts(t *testing.T, file string) Facts {
	t.Helper()
	parsed, problems := inventoryfile.Parse("inv.yaml", []byte(file))
	if problems != nil {
		t.Fatal(problems)
	}
	bare := ioslot.Slot{Index: other, Owner: ioslot.Owner{Kind: ioslot.Unowned}}
	return Facts{Host: "cmp1", Part: Part{Rules: inventoryfile.Merge(parsed),
		System: ioslot.System{Name: "sys", Reported: true, Slots: []ioslot.Slot{bare,
			slot(gpu1, "U78CB.001.WZS0JZB-P1-C12"), slot(gpu2, "U78CB.001.WZS0JZB-P1-C14")}}}}
}

// hostTree returns the tree that package survey computes for the host.
func hostTree(t *testing.T) provider.Tree {
	t.Helper()
	tree, _, err := survey.Desired(survey.Facts{Host: "cmp1", Root: rootID, VCPU: survey.RootInventory{Total: 8},
		MemoryMB: survey.RootInventory{Total: 1024}})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// desired returns the result, and checks that the host's own provider is unchanged.
func desired(t *testing.T, f Facts) Result {
	t.Helper()
	host := hostTree(t)
	before := fmt.Sprint(host)
	r, err := Desired(host, f)
	if err != nil {
		t.Fatal(err)
	}
	root, _ := r.Tree.Root()
	if was, _ := host.Root(); !reflect.DeepEqual(root, was) || fmt.Sprint(host) != before { // R43
		t.Errorf("the root is %+v", root)
	}
	return r
}

// written returns the facts of the next cycle, after the agent has written a result to Placement.
func (f Facts) written(r Result) Facts {
	f.Actual = r.Tree
	return f
}

// allocate gives a slot's provider to a consumer.
func (f Facts) allocate(t *testing.T, index ioslot.Index, class resource.Class, consumer resource.ConsumerID) Facts {
	t.Helper()
	p, ok := f.Actual.ByName(ioslot.ProviderName("cmp1", index))
	if !ok {
		t.Fatalf("no provider of %s", index)
	}
	used := maps.Clone(f.Consumers)
	if used == nil {
		used = map[provider.ID]map[resource.ConsumerID]resource.Amounts{}
	}
	used[p.ID] = map[resource.ConsumerID]resource.Amounts{consumer: {class: 1}}
	f.Consumers = used
	return f
}

// lines prints the providers of slots: name, class, total, reserved.
func (r Result) lines() (out []string) {
	for _, p := range r.Tree.Providers {
		if p.Parent == "" {
			continue
		}
		for class, inv := range p.Inventories {
			line := fmt.Sprintf("%s %s %d", strings.TrimPrefix(p.Name, "PowerVM IOSlot "), class, inv.Total)
			if inv.Reserved > 0 {
				line += fmt.Sprintf(" reserved %d", inv.Reserved)
			}
			out = append(out, line)
		}
	}
	slices.Sort(out)
	for _, p := range r.Orphans {
		out = append(out, "delete "+strings.TrimPrefix(p.Name, "PowerVM IOSlot "))
	}
	return out
}

func expect(t *testing.T, r Result, want ...string) {
	t.Helper()
	if got := r.lines(); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s\nnotes %v", strings.Join(got, "\n  "), strings.Join(want, "\n  "), r.Notes)
	}
}

// expectNote looks for a note with all parts.
func expectNote(t *testing.T, r Result, parts ...string) {
	t.Helper()
	for _, n := range r.Notes {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(n.String(), p) }) {
			return
		}
	}
	t.Errorf("no note with %q in %v", parts, r.Notes)
}

const golden = `cmp1  MEMORY_MB 0/1024  VCPU 0/8  [OWNER_NOVA]
├─ PowerVM IOSlot cmp1 01234560  CUSTOM_IOSLOT 0/1  [CUSTOM_POWERVM_IOSLOT_DRC_INDEX_01234560]
├─ PowerVM IOSlot cmp1 1C0FFEE1  CUSTOM_GPU 0/1  [CUSTOM_FAST CUSTOM_POWERVM_IOSLOT_CLASS_0302 ` +
	`CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB1 CUSTOM_POWERVM_IOSLOT_DRC_INDEX_1C0FFEE1 ` +
	`CUSTOM_POWERVM_IOSLOT_DRC_NAME_U78CB_001_WZS0JZB_P1_C12 CUSTOM_POWERVM_IOSLOT_REVISION_ID_A1 ` +
	`CUSTOM_POWERVM_IOSLOT_SUBSYS_DEVICE_ID_04B2 CUSTOM_POWERVM_IOSLOT_SUBSYS_VENDOR_ID_1014 ` +
	`CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE]
└─ PowerVM IOSlot cmp1 1C0FFEE2  CUSTOM_GPU 0/1  [CUSTOM_FAST CUSTOM_POWERVM_IOSLOT_CLASS_0302 ` +
	`CUSTOM_POWERVM_IOSLOT_DEVICE_ID_1DB1 CUSTOM_POWERVM_IOSLOT_DRC_INDEX_1C0FFEE2 ` +
	`CUSTOM_POWERVM_IOSLOT_DRC_NAME_U78CB_001_WZS0JZB_P1_C14 CUSTOM_POWERVM_IOSLOT_REVISION_ID_A1 ` +
	`CUSTOM_POWERVM_IOSLOT_SUBSYS_DEVICE_ID_04B2 CUSTOM_POWERVM_IOSLOT_SUBSYS_VENDOR_ID_1014 ` +
	`CUSTOM_POWERVM_IOSLOT_VENDOR_ID_10DE]
`

func TestNamesTraitsAndClasses_R24_R25_R30_R39(t *testing.T) {
	r := desired(t, facts(t, gpuFile+"bare:\n  identification: {drc_index: '01234560'}\n"))
	var b strings.Builder
	if err := r.Tree.Print(&b, nil); err != nil || b.String() != golden {
		t.Errorf("%v\n%s", err, b.String())
	}
	for id, index := range r.Slots {
		p, _ := r.Tree.ByID(id)
		if p.Parent != rootID || p.Root != rootID || p.Name != ioslot.ProviderName("cmp1", index) {
			t.Errorf("%+v", p)
		}
		for _, inv := range p.Inventories { // R29
			if inv != (resource.Inventory{Total: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, AllocationRatio: 1}) ||
				len(p.Inventories) != 1 {
				t.Errorf("%+v", p)
			}
		}
	}
	if len(r.Slots) != 3 || r.Notes != nil {
		t.Errorf("%v %v", r.Slots, r.Notes)
	}
}

func TestSecondCycleIsTheSame_R42(t *testing.T) {
	f := facts(t, gpuFile)
	first := desired(t, f)
	if second := desired(t, f.written(first)); !reflect.DeepEqual(first, second) {
		t.Errorf("%+v\n%+v", first, second)
	}
}

// The ID of a provider follows from its name and its root: an agent without any memory creates the same one, and a
// repeated creation changes nothing. Other hosts and other slots have other IDs.
func TestProviderIDsAreDerived_R26_C23(t *testing.T) {
	first, again := desired(t, facts(t, gpuFile)), desired(t, facts(t, gpuFile))
	seen := map[provider.ID]bool{rootID: true}
	for i, p := range first.Tree.Providers[1:] {
		if seen[p.ID] || p.ID == "" || again.Tree.Providers[i+1].ID != p.ID {
			t.Errorf("%s has the ID %q, and again %q", p.Name, p.ID, again.Tree.Providers[i+1].ID)
		}
		seen[p.ID] = true
	}
	f := facts(t, gpuFile)
	f.Host = "cmp2"
	for _, p := range desired(t, f).Tree.Providers[1:] {
		if seen[p.ID] {
			t.Errorf("%s has the ID of a provider of cmp1", p.Name)
		}
	}
	f = facts(t, gpuFile) // a provider that another program created keeps its ID
	f.Actual = hostTree(t)
	f.Actual.Providers = append(f.Actual.Providers, provider.Provider{ID: "given", Name: "PowerVM IOSlot cmp1 1C0FFEE1",
		Parent: rootID, Root: rootID})
	if p, _ := desired(t, f).Tree.ByName("PowerVM IOSlot cmp1 1C0FFEE1"); p.ID != "given" {
		t.Errorf("%+v", p)
	}
}

func TestHostsWithEqualIndicesHaveDifferentNames_C7(t *testing.T) {
	f := facts(t, gpuFile)
	here := desired(t, f)
	f.Host = "cmp2"
	for _, p := range desired(t, f).Tree.Providers[1:] {
		if _, same := here.Tree.ByName(p.Name); same {
			t.Errorf("%s has two hosts", p.Name)
		}
	}
	f.PlainNames = true
	expect(t, desired(t, f), "1C0FFEE1 CUSTOM_GPU 1", "1C0FFEE2 CUSTOM_GPU 1")
	f.PlainNames, f.Host = false, strings.Repeat("x", 177)
	if _, err := Desired(hostTree(t), f); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "200") {
		t.Errorf("%v", err)
	}
	f.Host = f.Host[1:]
	desired(t, f)
}

// The other form of the name remains while an allocation needs its provider.
func TestOtherFormOfNames_C7(t *testing.T) {
	f := facts(t, gpuFile)
	f = f.written(desired(t, f)).allocate(t, gpu1, "CUSTOM_GPU", "s1")
	f.PlainNames = true
	r := desired(t, f)
	expect(t, r, "1C0FFEE2 CUSTOM_GPU 1", "cmp1 1C0FFEE1 CUSTOM_GPU 1", "delete cmp1 1C0FFEE2")
	expectNote(t, r, "1C0FFEE1", `keeps the provider "PowerVM IOSlot cmp1 1C0FFEE1"`, "allocated to s1")
	f = f.written(r)
	f.Consumers = nil
	expect(t, desired(t, f), "1C0FFEE1 CUSTOM_GPU 1", "1C0FFEE2 CUSTOM_GPU 1", "delete cmp1 1C0FFEE1")
}

func TestOrphansAreDeleted_R41(t *testing.T) {
	f := facts(t, gpuFile)
	f = f.written(desired(t, f))
	pulled := f
	pulled.System.Slots = f.System.Slots[:2]
	expect(t, desired(t, pulled), "cmp1 1C0FFEE1 CUSTOM_GPU 1", "delete cmp1 1C0FFEE2")
	emptied := f
	emptied.System.Slots = slices.Clone(f.System.Slots)
	emptied.System.Slots[1].Description = "Empty slot"
	r := desired(t, emptied)
	expect(t, r, "cmp1 1C0FFEE2 CUSTOM_GPU 1", "delete cmp1 1C0FFEE1")
	removed := f
	removed.Rules = inventoryfile.Rules{} // C20: also when the file is missing
	expect(t, desired(t, removed), "delete cmp1 1C0FFEE1", "delete cmp1 1C0FFEE2")
	none := f
	none.System.Slots = nil // S8: an empty list is a system without slots
	expect(t, desired(t, none), "delete cmp1 1C0FFEE1", "delete cmp1 1C0FFEE2")
}

func TestMissingListChangesNothing_S8(t *testing.T) {
	f := facts(t, gpuFile)
	f = f.written(desired(t, f))
	f.System = ioslot.System{Name: "sys"}
	r := desired(t, f)
	expect(t, r)
	expectNote(t, r, "sys", "does not report its I/O slots")
}

func TestUnidentifiedSlotDeletesNothing_S9(t *testing.T) {
	f := facts(t, gpuFile)
	f = f.written(desired(t, f))
	f.System.Slots, f.System.Incomplete = f.System.Slots[:2], true
	f.System.Problems = []ioslot.Problem{{About: "slot 3 of the list", Sentence: "has no index"}}
	r := desired(t, f)
	expect(t, r, "cmp1 1C0FFEE1 CUSTOM_GPU 1")
	expectNote(t, r, "slot 3 of the list", "has no index")
}

func TestOrphanWithAllocationIsReservedAndOthersProceed_C21(t *testing.T) {
	f := facts(t, gpuFile)
	f = f.written(desired(t, f)).allocate(t, gpu1, "CUSTOM_GPU", "s1")
	f.System.Slots = f.System.Slots[:1]
	r := desired(t, f)
	expect(t, r, "cmp1 1C0FFEE1 CUSTOM_GPU 1 reserved 1", "delete cmp1 1C0FFEE2")
	expectNote(t, r, "1C0FFEE1", "the system has no such slot", "allocated to s1")
	before, _ := f.Actual.ByName("PowerVM IOSlot cmp1 1C0FFEE1")
	after, _ := r.Tree.ByName("PowerVM IOSlot cmp1 1C0FFEE1")
	if before.ID != after.ID || !slices.Equal(before.Traits, after.Traits) ||
		before.Inventories["CUSTOM_GPU"].Reserved != 0 {
		t.Errorf("%+v %+v", before, after)
	}
	f = f.written(r)
	f.Consumers = nil
	expect(t, desired(t, f), "delete cmp1 1C0FFEE1")
}

func TestSlotOfAGuestStays(t *testing.T) {
	f := facts(t, "")
	f.Held = []Claim{{Slot: gpu1, Holder: "s1", Class: "CUSTOM_GPU"}}
	r := desired(t, f) // the allocation is missing too, and must be possible: not reserved
	expect(t, r, "cmp1 1C0FFEE1 CUSTOM_GPU 1")
	expectNote(t, r, "1C0FFEE1", "no paragraph allows it", "the guest s1 holds it")
	f = facts(t, gpuFile)
	f.Held = []Claim{{Slot: gpu1, Holder: "s1", Class: "CUSTOM_GPU"}}
	f.System.Slots[1].Owner = ioslot.Owner{Kind: ioslot.Owned, PartitionID: 4}
	expect(t, desired(t, f), "cmp1 1C0FFEE1 CUSTOM_GPU 1", "cmp1 1C0FFEE2 CUSTOM_GPU 1")
}

func TestForeignOwnerIsReserved_C10(t *testing.T) {
	for want, owner := range map[string]ioslot.Owner{"partition 2 (vios1)": {Kind: ioslot.Owned, PartitionID: 2,
		Name: "vios1"}, "unknown owner": {Kind: ioslot.OwnerUnknown}} {
		f := facts(t, gpuFile)
		f.System.Slots = slices.Clone(f.System.Slots)
		f.System.Slots[1].Owner = owner
		r := desired(t, f)
		expect(t, r, "cmp1 1C0FFEE1 CUSTOM_GPU 1 reserved 1", "cmp1 1C0FFEE2 CUSTOM_GPU 1")
		expectNote(t, r, "1C0FFEE1", want, "reserved until it is free")
		f = f.written(r)
		expect(t, desired(t, f.allocate(t, gpu1, "CUSTOM_GPU", "s1")), "cmp1 1C0FFEE1 CUSTOM_GPU 1",
			"cmp1 1C0FFEE2 CUSTOM_GPU 1") // an allocation explains the owner
		f.System.Slots[1].Owner = ioslot.Owner{Kind: ioslot.Unowned}
		expect(t, desired(t, f), "cmp1 1C0FFEE1 CUSTOM_GPU 1", "cmp1 1C0FFEE2 CUSTOM_GPU 1")
	}
}

func TestOtherProvidersAreNotTouched_R28_C24(t *testing.T) {
	f := facts(t, "")
	f.Actual = hostTree(t)
	for _, name := range []string{"PowerVM PF 1C0FFEE1", "cmp1:NIC Switch agent", "PowerVM IOSlotX1C0FFEE1",
		"PowerVM IOSlot 1c0ffee1", "PowerVM IOSlot cmp2 1C0FFEE1", "PowerVM IOSlot cmp1 1C0FFEE1 x"} {
		f.Actual.Providers = append(f.Actual.Providers, provider.Provider{ID: provider.ID(name), Name: name, Parent: rootID,
			Root: rootID})
	}
	f.Actual.Providers = append(f.Actual.Providers, provider.Provider{ID: "deep", Name: "PowerVM IOSlot cmp1 1C0FFEE1",
		Parent: "PowerVM PF 1C0FFEE1", Root: rootID})
	expect(t, desired(t, f))
	f.Actual.Providers = append(f.Actual.Providers, provider.Provider{ID: "own", Name: "PowerVM IOSlot cmp1 1C0FFEE2",
		Parent: rootID, Root: rootID}) // R27: by its name alone, without any memory
	expect(t, desired(t, f), "delete cmp1 1C0FFEE2")
}

func TestClassOfASlotInUseChangesLater_R44(t *testing.T) {
	f := facts(t, gpuFile)
	f = f.written(desired(t, f))
	changed := facts(t, strings.ReplaceAll(gpuFile, "CUSTOM_GPU", "PGPU"))
	changed.Actual = f.Actual
	expect(t, desired(t, changed), "cmp1 1C0FFEE1 PGPU 1", "cmp1 1C0FFEE2 PGPU 1")
	used := changed.allocate(t, gpu1, "CUSTOM_GPU", "s1")
	r := desired(t, used)
	expect(t, r, "cmp1 1C0FFEE1 CUSTOM_GPU 1 reserved 1", "cmp1 1C0FFEE2 PGPU 1")
	expectNote(t, r, "1C0FFEE1", "class PGPU", "keeps CUSTOM_GPU", "s1")
	held := changed
	held.Held = []Claim{{Slot: gpu1, Holder: "s1", Class: "CUSTOM_GPU"}}
	expect(t, desired(t, held), "cmp1 1C0FFEE1 CUSTOM_GPU 1", "cmp1 1C0FFEE2 PGPU 1")
}

func TestOverlapIsInvalid_R16_R40(t *testing.T) {
	f := facts(t, gpuFile+"two:\n  identification: {class: '0302'}\n")
	_, err := Desired(hostTree(t), f)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "1C0FFEE1") ||
		!strings.Contains(err.Error(), "and 1 more slots") {
		t.Errorf("%v", err)
	}
	// R24
	if _, err := Desired(provider.Tree{}, facts(t, gpuFile)); !fault.Is(err, fault.Invalid) {
		t.Errorf("%v", err)
	}
}

func TestNotesForTheOperator_R2_R15_C11(t *testing.T) {
	f := facts(t, gpuFile+"none:\n  identification: {vendor_id: ABCD}\nempty:\n  identification: {drc_name: E}\n")
	nic, empty := slot(9, "N"), slot(10, "E")
	nic.Class, empty.Vendor = ioslot.Known(0x0200), ioslot.Known(0xffff)
	f.System.Slots = append(f.System.Slots, nic, empty)
	r := desired(t, f)
	expectNote(t, r, "00000009 (N)", "network or storage adapter")
	expectNote(t, r, "inv.yaml:5:1", `paragraph "none" matches no I/O slot`)
	expectNote(t, r, "0000000A (E)", `allowed by paragraph "empty"`, "is empty")
	if len(r.Notes) != 3 {
		t.Errorf("%v", r.Notes)
	}
}

func TestClassFromTheDevice_G5(t *testing.T) {
	f := facts(t, "a:\n  identification: {drc_name: '*'}\n")
	fpga, nic := slot(1, "F"), slot(2, "N")
	fpga.Class, nic.Class = ioslot.Known(0x1200), ioslot.Known(0x0280)
	f.System.Slots = []ioslot.Slot{fpga, nic, slot(gpu1, "G")}
	expect(t, desired(t, f), "cmp1 00000001 CUSTOM_IOSLOT 1", "cmp1 00000002 CUSTOM_IOSLOT 1",
		"cmp1 1C0FFEE1 CUSTOM_IOSLOT 1")
	f.ClassFromDevice = true
	expect(t, desired(t, f), "cmp1 00000001 CUSTOM_ACCELERATOR 1", "cmp1 00000002 CUSTOM_IOSLOT 1", "cmp1 1C0FFEE1 PGPU 1")
}

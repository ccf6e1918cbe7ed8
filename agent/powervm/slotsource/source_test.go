package slotsource_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/powervm/slotsource"
	"github.com/openberth/berth/agent/powervm/slotsurvey"
	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
)

// systems is a server with one system, which counts its requests.
type systems struct {
	system     uom.ManagedSystem
	partitions []uom.Partition
	unchanged  bool
	err        error
	reads      []string
}

func (s *systems) ManagedSystem(context.Context) (uom.ManagedSystem, bool, error) {
	s.reads = append(s.reads, "system")
	return s.system, !s.unchanged, s.err
}

func (s *systems) Partitions(context.Context, string) ([]uom.Partition, error) {
	s.reads = append(s.reads, "partitions")
	return s.partitions, s.err
}

// twoGPUs returns a system with two GPUs that reports owners.
func twoGPUs() *systems {
	slot := func(index string) uom.IOSlot {
		return uom.IOSlot{Index: index, Vendor: "4318", Description: "3D Controller"}
	}
	return &systems{system: uom.ManagedSystem{SystemName: "sys1", Capabilities: uom.Capabilities{SlotOwners: "true"},
		IO: &uom.IOConfiguration{Slots: &uom.IOSlots{Slots: []uom.IOSlot{slot("470810337"), slot("470810338")}}}}}
}

type files struct {
	t    *testing.T
	path string
}

func newFiles(t *testing.T) files { return files{t, filepath.Join(t.TempDir(), "inventory.yaml")} }

func (f files) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

const valid = "gpus: {identification: {vendor_id: 10DE}}\n"

func read(t *testing.T, s *slotsource.Source) facts.Facts {
	t.Helper()
	got, err := s.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// slots returns the I/O slots of a host.
func slots(f facts.Facts) slotsurvey.Part { return f.Parts[slotsurvey.Name].(slotsurvey.Part) }

func names(f facts.Facts) string {
	var list []string
	for _, p := range slots(f).Rules.Paragraphs {
		list = append(list, p.Name)
	}
	return strings.Join(list, " ")
}

// A cycle reads the system once, and an unchanged one is not interpreted again.
func TestOneReadACycle_R45_G3(t *testing.T) {
	server := twoGPUs()
	f := newFiles(t)
	f.write(valid)
	s := slotsource.New(slotsource.Options{Systems: server, Files: []string{f.path}})
	first := read(t, s)
	server.unchanged, server.system.IO = true, nil // an interpretation would lose the slots
	second := read(t, s)
	if strings.Join(server.reads, " ") != "system system" {
		t.Errorf("requests %v", server.reads)
	}
	if len(slots(first).System.Slots) != 2 || len(slots(second).System.Slots) != 2 {
		t.Errorf("%d and %d slots", len(slots(first).System.Slots), len(slots(second).System.Slots))
	}
	if &slots(first).Rules.Paragraphs[0] != &slots(second).Rules.Paragraphs[0] {
		t.Error("an unchanged file was parsed again")
	}
	server.unchanged = false
	if got := slots(read(t, s)).System; got.Reported {
		t.Error("a changed system was not interpreted")
	}
}

// Where slots do not report their owners, each cycle reads the partitions.
func TestOwnersComeFromPartitions_S10(t *testing.T) {
	server := twoGPUs()
	server.system.Capabilities.SlotOwners = ""
	server.partitions = []uom.Partition{{ID: "7", Name: "lpar", UUID: "A", Slots: []uom.ProfileSlot{
		{Slot: uom.IOSlot{Index: "470810337"}}}}}
	s := slotsource.New(slotsource.Options{Systems: server})
	got := slots(read(t, s)).System.Slots
	if got[0].Owner.Name != "lpar" || got[1].Owner.String() != "no owner" {
		t.Errorf("%v %v", got[0].Owner, got[1].Owner)
	}
	server.unchanged, server.partitions = true, nil
	server.partitions = []uom.Partition{}
	if got := slots(read(t, s)).System.Slots; got[0].Owner.String() != "no owner" {
		t.Errorf("after the partition is deleted: %v", got[0].Owner)
	}
}

// An error in a file refuses the start, with all errors. After a valid start, the last valid file stays in force, and
// the problem names the error. A corrected file takes effect.
func TestLastValidFileStaysInForce_R40_C19(t *testing.T) {
	f := newFiles(t)
	s := slotsource.New(slotsource.Options{Systems: twoGPUs(), Files: []string{f.path}})
	f.write("gpus: {identification: {vendor_id: 10DG}}\nmore: {identification: {device_id: x}}\n")
	err := s.Check()
	if !fault.Is(err, fault.Invalid) || len(slotsource.Problems(err)) != 2 {
		t.Fatalf("%v %v", err, slotsource.Problems(err))
	}
	if _, err := s.Read(nil); !fault.Is(err, fault.Invalid) {
		t.Fatal(err)
	}
	f.write(valid)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f.write("broken: {identification: {vendor_id: 10DG}}\n")
		got := read(t, s)
		if names(got) != "gpus" || len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Sentence, "10DG") {
			t.Errorf("%s %v", names(got), got.Problems)
		}
	}
	f.write("corrected: {identification: {vendor_id: 10DE}}\n")
	if got := read(t, s); names(got) != "corrected" || len(got.Problems) != 0 {
		t.Errorf("%s %v", names(got), got.Problems)
	}
}

// A file that allows one slot twice is not put into force, until the slots change so that it does not.
func TestOverlapIsNotPutIntoForce_R16(t *testing.T) {
	f := newFiles(t)
	f.write(valid)
	server := twoGPUs()
	s := slotsource.New(slotsource.Options{Systems: server, Files: []string{f.path}})
	read(t, s)
	f.write("first: {identification: {vendor_id: 10DE}}\nsecond: {identification: {drc_index: 1C0FFEE1}}\n")
	got := read(t, s)
	if names(got) != "gpus" || len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Sentence, "1C0FFEE1") {
		t.Errorf("%s %v", names(got), got.Problems)
	}
	server.system.IO = &uom.IOConfiguration{Slots: &uom.IOSlots{Slots: server.system.IO.Slots.Slots[1:]}}
	if got := read(t, s); names(got) != "first second" || len(got.Problems) != 0 {
		t.Errorf("%s %v", names(got), got.Problems)
	}
}

// A missing file allows nothing, and so does one that is removed; a problem names it if there is no other file. A file
// that cannot be read changes nothing.
func TestMissingFileAllowsNothing_C20(t *testing.T) {
	f := newFiles(t)
	s := slotsource.New(slotsource.Options{Systems: twoGPUs(), Files: []string{f.path}})
	missing := func() {
		t.Helper()
		if got := read(t, s); names(got) != "" || len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Sentence,
			f.path+" does not exist") {
			t.Errorf("%s %v", names(got), got.Problems)
		}
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	missing()
	f.write(valid)
	if got := read(t, s); names(got) != "gpus" {
		t.Errorf("%s", names(got))
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.path, 0o700); err != nil { // reading a directory fails for every user
		t.Fatal(err)
	}
	if got := read(t, s); names(got) != "gpus" || len(got.Problems) != 1 {
		t.Errorf("%s %v", names(got), got.Problems)
	}
	if err := os.Remove(f.path); err != nil {
		t.Fatal(err)
	}
	missing()
	other := newFiles(t)
	other.write(valid)
	s = slotsource.New(slotsource.Options{Systems: twoGPUs(), Files: []string{other.path, f.path}})
	if got := read(t, s); names(got) != "gpus" || len(got.Problems) != 0 {
		t.Errorf("%s %v", names(got), got.Problems)
	}
}

// The later file replaces paragraphs of the earlier one.
func TestLayers_G4(t *testing.T) {
	cloud, host := newFiles(t), newFiles(t)
	cloud.write(valid)
	host.write("gpus: {identification: {vendor_id: 10DE}, allow: false}\n")
	s := slotsource.New(slotsource.Options{Systems: twoGPUs(), Files: []string{cloud.path, host.path}})
	got := read(t, s)
	if len(slots(got).Rules.Paragraphs) != 1 || !slots(got).Rules.Paragraphs[0].Deny {
		t.Errorf("%+v", slots(got).Rules.Paragraphs)
	}
}

// A fault of the server is returned, and the next answer is interpreted as a whole.
func TestFaultOfTheServer(t *testing.T) {
	server := twoGPUs()
	s := slotsource.New(slotsource.Options{Systems: server})
	server.err = fault.New(fault.Unavailable, "starting")
	if _, err := s.Read(nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	server.err = nil
	if got := read(t, s); len(slots(got).System.Slots) != 2 {
		t.Errorf("%+v", slots(got).System)
	}
}

// A recording may be a feed, an entry or one system, with the headers of the answer before it.
func TestRecordings(t *testing.T) {
	const system = `<ManagedSystem:ManagedSystem xmlns:ManagedSystem="u" xmlns="u"><SystemName>sys1</SystemName>` +
		`</ManagedSystem:ManagedSystem>`
	const entry = `<entry xmlns="http://www.w3.org/2005/Atom"><id>1</id><content>` + system + `</content></entry>`
	const prefixed = `<ns2:entry xmlns:ns2="http://www.w3.org/2005/Atom"><ns2:content>` + system +
		`</ns2:content></ns2:entry>`
	for _, text := range []string{system, entry, prefixed,
		`<feed xmlns="http://www.w3.org/2005/Atom">` + entry + `</feed>`,
		"HEADERS{\n'etag': '1'\n}\nBODY{\n<?xml version=\"1.0\"?>\n<feed>" + entry + "</feed>\n}\nEND OF SECTION"} {
		path := filepath.Join(t.TempDir(), "recorded")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := slotsource.Recorded{Path: path}.ManagedSystem(t.Context())
		if err != nil || got.SystemName != "sys1" {
			t.Errorf("%s: %q %v", text, got.SystemName, err)
		}
	}
	path := filepath.Join(t.TempDir(), "recorded")
	if err := os.WriteFile(path, []byte("<feed>"+entry+entry+"</feed>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := (slotsource.Recorded{Path: path}).ManagedSystem(t.Context()); !fault.Is(err, fault.Invalid) {
		t.Errorf("two systems: %v", err)
	}
}

// A file of 0 bytes, or of white space, refuses the start, and is not put into force while the agent runs. A file that
// must allow nothing says so.
func TestEmptyFileIsSuspicious(t *testing.T) {
	f := newFiles(t)
	f.write("")
	s := slotsource.New(slotsource.Options{Systems: twoGPUs(), Files: []string{f.path}})
	if err := s.Check(); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "the file is empty") {
		t.Fatal(err)
	}
	f.write(valid)
	read(t, s)
	for _, text := range []string{"", "\n \n"} {
		f.write(text)
		if got := read(t, s); names(got) != "gpus" || len(got.Problems) != 1 ||
			!strings.Contains(got.Problems[0].Sentence, "the last valid version stays in force") {
			t.Errorf("%q: %s %v", text, names(got), got.Problems)
		}
	}
	f.write("{}\n")
	if got := read(t, s); names(got) != "" || len(got.Problems) != 0 {
		t.Errorf("%s %v", names(got), got.Problems)
	}
}

// A FIFO does not hang the reader; it is refused like every file that is not a regular one.
func TestFIFOIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "inventory.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, "/dev/zero", t.TempDir()} {
		if _, err := slotsource.Load([]string{file}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// A pattern names the files that match it at each reading, in the order of their names.
func TestPatternsNameFiles(t *testing.T) {
	dir := t.TempDir()
	pattern := filepath.Join(dir, "*.yaml")
	s := slotsource.New(slotsource.Options{Systems: twoGPUs(), Files: []string{pattern}})
	if got := read(t, s); len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Sentence, "does not exist") {
		t.Errorf("without a file: %v", got.Problems)
	}
	for _, name := range []string{"b", "a"} {
		text := name + ": {identification: {drc_name: " + name + "}}\n"
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(t, s); names(got) != "a b" || len(got.Problems) != 0 {
		t.Errorf("%s %v", names(got), got.Problems)
	}
	files := slotsource.Expand([]string{filepath.Join(dir, "a.yaml"), pattern, "/missing/*.yaml"})
	want := []string{filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml"), "/missing/*.yaml"}
	if !slices.Equal(files, want) {
		t.Errorf("%v", files)
	}
}

package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

func open(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func claim(server, request, address string) device.Claim {
	a, err := pci.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	pf := pci.Address{Domain: a.Domain, Bus: a.Bus}
	return device.Claim{Offer: device.Offer{Offered: pci.Offered{
		Device: pci.Device{Address: a, Vendor: "8086", Product: "1515", Type: pci.Virtual, Parent: &pf, NUMANode: 1,
			IOMMUGroup: pci.NoGroup},
		Provider: "p-" + resource.ProviderID(address), ResourceClass: "CUSTOM_NIC", Traits: []resource.Trait{"CUSTOM_A"},
		LiveMigratable: pci.Yes, Holder: resource.ConsumerID(server), RequestID: request, State: pci.Claimed},
		Name: "cmp1_" + address, Managed: pci.No, Networked: true}}
}

// fill writes entries of all kinds and returns the expected state.
func fill(t *testing.T, j *Journal) State {
	t.Helper()
	ok(t, j.Write(Identity{Host: "cmp1", Provider: "11111111-1111-4111-8111-111111111111", Instance: "an agent",
		Starts: 3}.Entry()))
	ok(t, j.Write(Put("s1", []device.Claim{claim("s1", "r1", "0000:3b:00.1"), claim("s1", "r1", "10000:01:00.0")})))
	ok(t, j.Write(Put("s2", nil)))
	ok(t, j.Write(Put("s3", []device.Claim{claim("s3", "r3", "0000:3b:00.2")})))
	ok(t, j.Write(Gone("s3")))
	ok(t, j.Write(Put("s4", []device.Claim{claim("s4", "r4", "0000:3b:00.3")})))
	ok(t, j.Write(Removed("s4", time.Time{})))
	ok(t, j.Write(OwnedBy("pf", Owned{Classes: []resource.Class{"CUSTOM_NIC"}, Traits: []resource.Trait{"CUSTOM_A"}})))
	ok(t, j.Write(OwnedBy("gone", Owned{Traits: []resource.Trait{"CUSTOM_B"}})))
	ok(t, j.Write(OwnedBy("gone", Owned{})))
	return j.State()
}

func TestReopenKeepsState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "directory")
	j := open(t, dir)
	if _, has := j.State().Identity(); has {
		t.Error("a new journal has an identity")
	}
	want := fill(t, j)
	if got, _ := want.Of("s1"); !reflect.DeepEqual(got[0], claim("s1", "r1", "0000:3b:00.1")) {
		t.Errorf("a claim is read as %+v", got[0])
	}
	if got := want.Servers(); !reflect.DeepEqual(got, []string{"s1", "s2"}) {
		t.Errorf("servers %v", got)
	}
	if got := want.Gone(); !reflect.DeepEqual(got, []string{"s3"}) {
		t.Errorf("gone %v", got)
	}
	if got := want.Claims(); len(got) != 2 || got[0].Device.Address.String() != "0000:3b:00.1" || got[1].Holder != "s1" {
		t.Errorf("claims %v", got)
	}
	if claims, has := want.Of("s2"); !has || claims != nil {
		t.Errorf("s2: %v %v", claims, has)
	}
	ok(t, j.Close())
	for range 2 { // the first opening compacts
		again := open(t, dir)
		if got := again.State(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		ok(t, again.Close())
	}
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Read: %+v %v", got, err)
	}
}

func TestReadOfNothingIsEmpty(t *testing.T) {
	dir := t.TempDir()
	state, err := Read(dir)
	if _, has := state.Identity(); err != nil || has || len(state.Servers()) != 0 {
		t.Errorf("%+v %v", state, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("Read created files: %v %v", left, err)
	}
}

func TestTwoOpeners(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	_, err := Open(dir)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("the second opener got %v", err)
	}
	if _, err := Read(dir); err != nil {
		t.Errorf("a dry run is refused: %v", err)
	}
	ok(t, first.Close())
	ok(t, first.Close())
	if err := first.Write(Put("s", nil)); err == nil {
		t.Error("wrote after Close")
	}
	ok(t, open(t, dir).Write(Put("s", nil)))
}

func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	j.slack = 100
	for range 150 {
		ok(t, j.Write(Put("s1", []device.Claim{claim("s1", "r", "0000:00:01.0")})))
	}
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	ok(t, err)
	if lines := bytes.Count(data, []byte{'\n'}); lines > 60 {
		t.Errorf("%d lines after 150 writes", lines)
	}
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, j.State()) {
		t.Errorf("%+v %v", got, err)
	}
}

func TestUnreadableDirectoryIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(filepath.Join(file, "under")); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

// Renames, NUMA cells, used devices and the cloud survive a restart and a compaction.
func TestRenamesAndUsedDevicesSurvive(t *testing.T) {
	dir, at := t.TempDir(), pci.Address{Bus: 0x17}
	claim := device.Claim{Offer: device.Offer{Offered: pci.Offered{
		Device:         pci.Device{Address: at, NUMANode: -1, IOMMUGroup: -1},
		LiveMigratable: pci.Yes, Holder: "s1", RequestID: "r", State: pci.Allocated}}}
	cell := GuestCell{VCPUs: []int{0}, Dedicated: []int{0}, Threads: "isolate", MemoryMB: 512, PageKB: -1, Emulator: 1,
		Node: 1, CPUs: map[int]int{0: 5}, EmulatorThreads: []int{6}, Pages: 2048}
	j, err := Open(dir)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	must(j.Write(Identity{Host: "h", Provider: "p", Instance: "i", Cloud: "c"}.Entry()))
	must(j.Write(Put("s1", []device.Claim{claim}, cell)))
	must(j.Write(Renamed("s1", "m1", false)))
	must(j.Write(Put("s1", nil)))
	must(j.Write(Renamed("s1", "m1", true))) // repeated, it moves nothing
	must(j.Write(Used(device.PCI(at), Spent{Provider: "p1"})))
	must(j.Write(Used(device.PCI(pci.Address{Bus: 0x18}), Spent{Returning: true})))
	must(j.Write(Cleaned(device.PCI(pci.Address{Bus: 0x19})))) // never used
	check := func(s State) {
		t.Helper()
		claims, _ := s.Of("m1")
		claim.Holder = "m1"
		if !reflect.DeepEqual(claims, []device.Claim{claim}) || !reflect.DeepEqual(s.Cells("m1"), []GuestCell{cell}) {
			t.Errorf("%+v %+v", claims, s.Cells("m1"))
		}
		if of, taken := s.Of("s1"); !taken || len(of) > 0 || len(s.Cells("s1")) > 0 {
			t.Errorf("%+v", of)
		}
		if id, _ := s.Identity(); id.Cloud != "c" || s.Renames()["m1"] != (Rename{"s1", true}) ||
			!reflect.DeepEqual(s.Spent(), map[device.ID]Spent{
				device.PCI(at): {Provider: "p1"}, device.PCI(pci.Address{Bus: 0x18}): {Returning: true}}) {
			t.Errorf("%+v %+v %+v", id, s.Renames(), s.Spent())
		}
	}
	for range 2 { // the second time from the rewritten file
		check(j.State())
		must(j.Close())
		s, err := Read(dir)
		must(err)
		check(s)
		j, err = Open(dir)
		must(err)
	}
	must(j.Write(Cleaned(device.PCI(at))))
	must(j.Write(Renamed("m1", "s1", true))) // the reverse rename
	must(j.Write(Removed("s1", time.Time{})))
	if s := j.State(); len(s.Spent()) != 1 || len(s.Renames()) != 1 || s.Renames()["s1"].Was != "m1" ||
		len(s.Servers()) != 0 {
		t.Errorf("%+v %+v %+v", s.Spent(), s.Renames(), s.Servers())
	}
	must(j.Write(RenameForgotten("s1")))
	must(j.Close())
	s, err := Read(dir)
	must(err)
	if len(s.Renames()) != 0 || len(s.Claims()) != 0 {
		t.Errorf("%+v %+v", s.Renames(), s.Claims())
	}
}

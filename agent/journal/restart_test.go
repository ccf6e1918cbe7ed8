package journal

import (
	"reflect"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// Renames, NUMA cells, used devices and the cloud survive a restart and a compaction.
func TestRenamesAndUsedDevicesSurvive(t *testing.T) {
	dir, at := t.TempDir(), pci.Address{Bus: 0x17}
	claim := device.Claim{Offer: device.Offer{Device: pci.Device{Address: at, NUMANode: -1, IOMMUGroup: -1},
		LiveMigratable: pci.Yes}, Holder: "s1", Request: "r", State: device.Allocated}
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
	must(j.Write(Removed("s1")))
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

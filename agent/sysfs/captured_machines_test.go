package sysfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/pci"
)

// machine loads a captured machine of testdata, or the sample.
func machine(t testing.TB, name string) fs.FS {
	t.Helper()
	data := sample
	if name != "sample" {
		var err error
		if data, err = os.ReadFile(filepath.Join("testdata", name+".txtar")); err != nil {
			t.Fatal(err)
		}
	}
	fsys, err := Load(data)
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

// read reads a machine.
func read(t testing.TB, fsys fs.FS) facts.Facts {
	t.Helper()
	found, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// deviceAt returns the device at an address.
func deviceAt(t *testing.T, f facts.Facts, address string) pci.Device {
	t.Helper()
	for _, d := range f.Devices {
		if d.Address.String() == address {
			return d
		}
	}
	t.Fatalf("no device %s", address)
	return pci.Device{}
}

func TestReadSample(t *testing.T) {
	fsys, err := Sample()
	if err != nil {
		t.Fatal(err)
	}
	found := read(t, fsys)
	if len(found.Problems) > 0 || len(found.Devices) != 21 {
		t.Errorf("%d devices, problems %v", len(found.Devices), found.Problems)
	}
	pages := []facts.Pages{{SizeKB: 2048, Total: 1024}, {SizeKB: 1048576, Total: 0}}
	if want := []facts.Node{{ID: 0, CPUs: []int{0, 1}, Socket: 0, Siblings: [][]int{{0}, {1}}, MemoryMB: 131072,
		Pages: pages},
		{ID: 1, CPUs: []int{2, 3}, Socket: 1, Siblings: [][]int{{2}, {3}}, MemoryMB: 131072,
			Pages: pages}}; !reflect.DeepEqual(found.Nodes, want) {
		t.Errorf("nodes %v", found.Nodes)
	}
	pf := pci.Address{Bus: 0x21}
	for _, want := range []pci.Device{
		{Address: pf, Vendor: "1b36", Product: "0010", Class: 0x010802, Type: pci.Physical, NUMANode: 1, Driver: "nvme",
			IOMMUGroup: 7, Bridges: []pci.Address{{Bus: 0x20}}, TotalVFs: 4, NumVFs: 4, VFProduct: "0010"},
		{Address: pci.Address{Bus: 0x21, Func: 3}, Vendor: "1b36", Product: "0010", Class: 0x010802, Type: pci.Virtual,
			Parent: &pf, NUMANode: 1, IOMMUGroup: 17, Bridges: []pci.Address{{Bus: 0x20}}},
		{Address: pci.Address{Bus: 0x22}, Vendor: "8086", Product: "10d3", Class: 0x020000, Type: pci.Plain, NUMANode: 1,
			Driver: "e1000e", IOMMUGroup: 8, Bridges: []pci.Address{{Bus: 0x20, Slot: 1}}, Net: []string{"eth0"}},
		{Address: pci.Address{Slot: 3}, Vendor: "1234", Product: "11e8", Class: 0x00ff00, Type: pci.Plain,
			NUMANode: pci.NoNUMA, IOMMUGroup: 3},
	} {
		if got := deviceAt(t, found, want.Address.String()); !reflect.DeepEqual(got, want) {
			t.Errorf("\n got %#v\nwant %#v", got, want)
		}
	}
	types := map[pci.Type]int{}
	for _, d := range found.Devices {
		types[d.Type]++
	}
	if types[pci.Physical] != 2 || types[pci.Virtual] != 8 {
		t.Errorf("%v", types)
	}
}

func TestReadVirtio(t *testing.T) {
	found := read(t, machine(t, "virtio_vm"))
	nic := deviceAt(t, found, "0000:00:03.0")
	if nic.Driver != "virtio-pci" || !reflect.DeepEqual(nic.Net, []string{"eth0"}) || nic.IOMMUGroup != pci.NoGroup {
		t.Errorf("%#v", nic)
	}
	if len(found.Devices) != 6 || !found.Devices[0].IsBridge() || len(found.Problems) > 0 {
		t.Errorf("%v %v", found.Devices, found.Problems)
	}
}

// TestReadOdd tests that unreadable devices and nodes are reported and do not affect the others.
func TestReadOdd(t *testing.T) {
	found := read(t, machine(t, "odd_host"))
	const unreadable = ", so the device is unreadable: it stays as it was last read, or is not offered if the agent " +
		"never read it, and a server that holds it keeps it; look for it in the kernel log, and let the agent read " +
		"its files"
	var devices, problems []string
	for _, d := range found.Devices {
		devices = append(devices, fmt.Sprintf("%v numa %d net %v", d, d.NUMANode, d.Net))
	}
	for _, p := range found.Problems {
		problems = append(problems, p.String())
	}
	for what, lists := range map[string][2][]string{
		"devices": {devices, {
			"0000:01:00.0 10de:20b0 type-PCI numa -1 net []",
			"0000:02:10.0 8086:1515 type-VF numa -1 net []", // its PF cannot be parsed, but the VF can
			"0000:03:10.0 8086:1515 type-VF numa -1 net []",
			"0000:06:00.0 8086:1528 type-PCI numa 0 net [enp6s0f0 enp6s0f1]",
			"10000:e1:00.0 8086:0b60 type-PCI numa 1 net []",
		}},
		"problems": {problems, {
			`0000:02:00.0: vendor "garbage" is not a number such as 0x8086` + unreadable,
			`0000:03:10.0: numa_node "first" is not the number of a node: the node is taken as unknown; ` + withoutNode,
			`0000:03:10.0: iommu_group leads to "none", which is not a number: the group is taken as unknown; check ` +
				`the IOMMU in firmware and kernel log`,
			`0000:03:10.0: physfn leads to 0000:03:00.0, which does not exist: the VF is offered like other VFs; ` +
				`rescan the PCI bus, or make the VFs again`,
			`0000:04:00.0: physfn leads to "nowhere", which is not a PCI address` + unreadable,
			`0000:05:00.0: sriov_totalvfs "many" is not a number` + unreadable,
			`0000:07:00.0: vanished while it was read: it stays as it was last read until the agent reads the host ` +
				`again; rescan the PCI bus if it should exist`,
			`slot7: is not a PCI address such as 0000:3b:00.1: the entry of bus/pci/devices is ignored; find out ` +
				`which program or driver made it`,
			`node0: meminfo is missing: the node is taken as one without memory, so that guests with NUMA cells get ` +
				`only huge pages of it; check that the agent sees the whole /sys`,
			`node2: cpulist is "x", which is not a list such as 0-3,8: the node is left out, and no guest is put on ` +
				`it; look in the kernel log`,
			`0000:01:00.0: numa_node is missing: the node is taken as unknown; check that the agent sees the whole ` +
				`/sys, or ` + byPolicy,
		}},
	} {
		if got, want := strings.Join(lists[0], "\n"), strings.Join(lists[1], "\n"); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", what, got, want)
		}
	}
	if want := []facts.Node{{ID: 0, CPUs: []int{0, 1, 4}, Socket: facts.NoSocket}, {ID: 1, Socket: facts.NoSocket,
		MemoryMB: 1}}; !reflect.DeepEqual(found.Nodes, want) {
		t.Errorf("nodes %v", found.Nodes)
	}
}

// TestReadDirectory tests that a real directory with real symlinks has the same result as the archive.
func TestReadDirectory(t *testing.T) {
	fsys := machine(t, "sample")
	dir := t.TempDir()
	for name, file := range fsys.(*Machine).now.MapFS {
		unpack(t, dir, name, file)
	}
	if got, want := read(t, os.DirFS(dir)), read(t, fsys); !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %v\nwant %v", got, want)
	}
}

// unpack writes a file or a link below dir.
func unpack(t testing.TB, dir, name string, file *fstest.MapFile) {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil && file.Mode.Type() == fs.ModeSymlink {
		err = os.Symlink(string(file.Data), name)
	} else if err == nil {
		err = os.WriteFile(name, file.Data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

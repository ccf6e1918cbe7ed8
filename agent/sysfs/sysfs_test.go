package sysfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/fault"
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
			IOMMUGroup: 7, TotalVFs: 4, NumVFs: 4, VFProduct: "0010"},
		{Address: pci.Address{Bus: 0x21, Func: 3}, Vendor: "1b36", Product: "0010", Class: 0x010802, Type: pci.Virtual,
			Parent: &pf, NUMANode: 1, IOMMUGroup: 17},
		{Address: pci.Address{Bus: 0x22}, Vendor: "8086", Product: "10d3", Class: 0x020000, Type: pci.Plain, NUMANode: 1,
			Driver: "e1000e", IOMMUGroup: 8, Net: []string{"eth0"}},
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
	found := read(t, machine(t, "virtio"))
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
	found := read(t, machine(t, "odd"))
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

// faulty is a file system in which some operations fail; it counts the operations.
type faulty struct {
	fstest.MapFS
	fail  map[string]error // by the end of the name
	calls *int
}

func (f faulty) check(op, name string) error {
	*f.calls++
	for end, err := range f.fail {
		if strings.HasSuffix(name, end) {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	return nil
}

func (f faulty) Open(name string) (fs.File, error) {
	if err := f.check("open", name); err != nil {
		return nil, err
	}
	return f.MapFS.Open(name)
}

func (f faulty) ReadFile(name string) ([]byte, error) {
	if err := f.check("read", name); err != nil {
		return nil, err
	}
	return f.MapFS.ReadFile(name)
}

func (f faulty) Stat(name string) (fs.FileInfo, error) {
	if err := f.check("stat", name); err != nil {
		return nil, err
	}
	return f.MapFS.Stat(name)
}

func (f faulty) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := f.check("readdir", name); err != nil {
		return nil, err
	}
	return f.MapFS.ReadDir(name)
}

func (f faulty) ReadLink(name string) (string, error) {
	if err := f.check("readlink", name); err != nil {
		return "", err
	}
	return f.MapFS.ReadLink(name)
}

// If any file of a device cannot be read, or the device vanishes at any time, the other devices are unaffected.
func TestReadWithFaults(t *testing.T) {
	whole := machine(t, "sample").(fstest.MapFS)
	others := read(t, whole)
	const name = "0000:21:00.0"
	for _, file := range []string{"vendor", "device", "class", "physfn", "driver", "iommu_group", "numa_node",
		"sriov_totalvfs", "sriov_numvfs", "sriov_vf_device", "net"} {
		calls := 0
		found := read(t, faulty{whole, map[string]error{name + "/" + file: fs.ErrPermission}, &calls})
		if len(found.Devices) != len(others.Devices)-1 || len(found.Problems) != 1 || found.Problems[0].Name != name {
			t.Errorf("%s: %d devices, problems %v", file, len(found.Devices), found.Problems)
			continue
		}
		if s := found.Problems[0].Sentence; !strings.Contains(s, file) || !strings.Contains(s, "permission denied") {
			t.Errorf("%s: %q", file, s)
		}
	}
	calls := 0
	for want, fail := range map[string]map[string]error{"device is missing": {name + "/device": fs.ErrNotExist},
		"vanished": {name + "/device": fs.ErrNotExist, name: fs.ErrNotExist}} {
		found := read(t, faulty{whole, fail, &calls})
		if len(found.Devices) != len(others.Devices)-1 || len(found.Problems) != 1 ||
			!strings.Contains(found.Problems[0].Sentence, want) ||
			found.Problems[0].Unreadable != (want != "vanished") {
			t.Errorf("%s: %+v", want, found.Problems)
		}
	}
	found := read(t, faulty{whole, map[string]error{"node1/cpulist": fs.ErrPermission}, &calls})
	if len(found.Nodes) != 1 || len(found.Problems) != 1 || found.Problems[0].Name != "node1" {
		t.Errorf("%v %v", found.Nodes, found.Problems)
	}
	for dir, kind := range map[string]fault.Kind{deviceDir: fault.Unavailable, nodeDir: fault.Unavailable} {
		if _, err := Read(faulty{whole, map[string]error{dir: fs.ErrPermission}, &calls}); !fault.Is(err, kind) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// Read makes few calls: ten for a PF, eight for a VF, nine for another device without virtio, one for each list, three
// for a node and two for a CPU.
func TestReadFewFiles(t *testing.T) {
	whole, calls := machine(t, "sample").(fstest.MapFS), 0
	found := read(t, faulty{MapFS: whole, calls: &calls})
	most := 3 + 3*len(found.Nodes)
	for _, n := range found.Nodes {
		most += 2*len(n.CPUs) + len(n.Pages)
	}
	for _, d := range found.Devices {
		most += map[pci.Type]int{pci.Physical: 12, pci.Virtual: 9, pci.Plain: 10}[d.Type]
	}
	if calls > most {
		t.Errorf("%d calls for %d devices, want at most %d", calls, len(found.Devices), most)
	}
}

// A tree without a list of devices is an error, not a machine without devices: otherwise all providers would be
// deleted.
func TestReadWithoutPCI(t *testing.T) {
	empty := fstest.MapFS{deviceDir: {Mode: fs.ModeDir | 0o755}}
	found, err := Read(empty)
	if err != nil || !reflect.DeepEqual(found, facts.Facts{}) {
		t.Errorf("a machine without devices: %v %v", found, err)
	}
	if err := Check(empty, "/x"); err != nil {
		t.Errorf("a machine without devices: %v", err)
	}
	for name, fsys := range map[string]fs.FS{
		"nothing":            fstest.MapFS{},
		"an empty directory": os.DirFS(t.TempDir()),
		"another directory":  fstest.MapFS{"pci/devices/0000:00:00.0/vendor": {}},
		"a file":             fstest.MapFS{deviceDir: {}},
	} {
		if found, err := Read(fsys); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v %v", name, found, err)
		}
		err := Check(fsys, "/x")
		if !fault.Is(err, fault.Invalid) || fault.TextOf(err) != "/x has no bus/pci/devices: it is not shaped like /sys" {
			t.Errorf("%s: %v", name, err)
		}
		if text, err := Capture(fsys); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s was captured: %v\n%s", name, err, text)
		}
	}
	if _, err := Read(struct{ fs.FS }{fstest.MapFS{}}); !fault.Is(err, fault.Internal) {
		t.Errorf("a file system without symlinks: %v", err)
	}
}

// TestReadDirectory tests that a real directory with real symlinks has the same result as the archive.
func TestReadDirectory(t *testing.T) {
	fsys := machine(t, "sample")
	dir := t.TempDir()
	for name, file := range fsys.(fstest.MapFS) {
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

func TestParseCPUList(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "0": {0}, "0-3,8": {0, 1, 2, 3, 8}, "8,0-1,1": {0, 1, 8}} {
		if got, err := ParseCPUList(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v %v", text, got, err)
		}
	}
	for _, text := range []string{",", "1-", "-1", "3-1", "x", "0-65536", "0-4294967295", strings.Repeat("0-65535,", 100) +
		"1", " 1"} {
		if got, err := ParseCPUList(text); err == nil {
			t.Errorf("%q: %d CPUs", text, len(got))
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	for _, seed := range []string{"", "0-3,8", "1-", "0-65535,0-65535", "0-65535,0,0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus, err := ParseCPUList(text)
		if err != nil {
			return
		}
		for i := 1; i < len(cpus); i++ {
			if cpus[i-1] >= cpus[i] {
				t.Fatalf("%q: %v", text, cpus)
			}
		}
	})
}

// While devices vanish from a real directory, the others are always read, and the lost ones are reported.
func TestReadWhileDevicesVanish(t *testing.T) {
	dir := t.TempDir()
	for name, file := range server(4, 8, 1) {
		unpack(t, dir, name, file)
	}
	fsys := os.DirFS(dir)
	stays := func(a pci.Address) bool { return a.Func%2 == 0 }
	all := read(t, fsys).Devices
	done := make(chan error)
	go func() {
		defer close(done)
		for _, d := range all {
			if stays(d.Address) {
				continue
			}
			// Like the kernel: first the directory of the device, then its entry in the list.
			link := filepath.Join(dir, deviceDir, d.Address.String())
			at, err := filepath.EvalSymlinks(link)
			if err == nil {
				err = os.RemoveAll(at)
			}
			if err == nil {
				err = os.Remove(link)
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	for running := true; running; {
		select {
		case err, open := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = open
		default:
		}
		found := read(t, fsys)
		remaining := 0
		for _, d := range found.Devices {
			if stays(d.Address) {
				remaining++
			}
		}
		if remaining != 20 {
			t.Fatalf("%d of 20 remaining devices; %v", remaining, found.Problems)
		}
	}
	if found := read(t, fsys); len(found.Devices) != 20 || len(found.Problems) > 0 {
		t.Errorf("%d devices at the end, %v", len(found.Devices), found.Problems)
	}
}

// BenchmarkRead500 reads 500 devices in the kernel's layout: 20 cards with 24 VFs each, two NUMA nodes of 64 threads.
// The target is less than 50 ms.
func BenchmarkRead500(b *testing.B) {
	dir := b.TempDir()
	for name, file := range server(20, 24, 64) {
		unpack(b, dir, name, file)
	}
	fsys := os.DirFS(dir)
	for b.Loop() {
		found := read(b, fsys)
		if len(found.Devices) != 500 || len(found.Problems) > 0 || len(found.Nodes) != 2 ||
			found.Devices[1].Type != pci.Virtual || found.Devices[1].Driver != "vfio-pci" {
			b.Fatal(len(found.Devices), found.Problems, found.Devices[1])
		}
	}
}

// server returns a machine with cards that have VFs, on two NUMA nodes.
func server(cards, vfs, threads int) fstest.MapFS {
	m := fstest.MapFS{}
	text := func(name, s string) { m[name] = &fstest.MapFile{Data: []byte(s + "\n")} }
	link := func(name, s string) { m[name] = &fstest.MapFile{Data: []byte(s), Mode: fs.ModeSymlink} }
	device := func(a pci.Address, under, product, driver, node string) (at string) {
		at = under + "/" + a.String()
		link(deviceDir+"/"+a.String(), "../../../"+at)
		text(at+"/uevent", "DRIVER="+driver+"\nPCI_CLASS=20000\nPCI_ID=8086:"+product+"\nPCI_SLOT_NAME="+a.String())
		text(at+"/vendor", "0x8086")
		text(at+"/device", "0x"+product)
		text(at+"/class", "0x020000")
		text(at+"/numa_node", node)
		link(at+"/driver", "../../../../bus/pci/drivers/"+driver)
		link(at+"/iommu_group", "../../../../kernel/iommu_groups/1")
		return at
	}
	for i := range cards {
		pf, node := pci.Address{Bus: uint8(i)}, fmt.Sprint(i%2)
		bridge := fmt.Sprintf("devices/pci0000:%02x/0000:%02x:01.0", i, i)
		at := device(pf, bridge, "1528", "ixgbe", node)
		text(at+"/sriov_totalvfs", "63")
		text(at+"/sriov_numvfs", fmt.Sprint(vfs))
		text(at+"/sriov_vf_device", "1515")
		text(at+"/net/ens"+fmt.Sprint(i)+"/address", "00:00:00:00:00:00")
		for n := range vfs {
			vf := device(pci.Address{Bus: pf.Bus, Slot: uint8(16 + n/8), Func: uint8(n % 8)}, bridge, "1515", "vfio-pci", node)
			link(vf+"/physfn", "../"+pf.String())
		}
	}
	for n := range 2 {
		dir := fmt.Sprintf("%s/node%d", nodeDir, n)
		text(dir+"/cpulist", fmt.Sprintf("%d-%d", n*threads, (n+1)*threads-1))
		text(dir+"/meminfo", fmt.Sprintf("Node %d MemTotal: 131072000 kB", n))
		for cpu := n * threads; cpu < (n+1)*threads; cpu++ {
			text(fmt.Sprintf("%s/cpu%d/topology/physical_package_id", cpuDir, cpu), fmt.Sprint(n))
			text(fmt.Sprintf("%s/cpu%d/topology/thread_siblings_list", cpuDir, cpu), fmt.Sprintf("%d-%d", cpu&^1, cpu|1))
		}
	}
	return m
}

// uevent and the single files give the same result; the files are read when uevent is unreadable or incomplete.
func TestUevent(t *testing.T) {
	m, calls := server(1, 2, 2), 0
	want := read(t, m)
	if d := want.Devices[0]; d.Vendor != "8086" || d.Product != "1528" || d.Class != 0x020000 || d.Driver != "ixgbe" ||
		len(want.Devices) != 3 {
		t.Fatalf("%+v", want.Devices)
	}
	if got := read(t, faulty{m, map[string]error{"uevent": fs.ErrPermission}, &calls}); !reflect.DeepEqual(got, want) {
		t.Errorf("without permission: %+v", got)
	}
	for name, text := range map[string]string{"nothing": "", "no class": "PCI_ID=8086:1528",
		"incomplete numbers": "PCI_CLASS=20000\nPCI_ID=8086", "garbage": "\x00=\n=="} {
		m["devices/pci0000:00/0000:00:01.0/0000:00:00.0/uevent"] = &fstest.MapFile{Data: []byte(text)}
		if got := read(t, m); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	delete(m, "devices/pci0000:00/0000:00:01.0/0000:00:00.0/uevent")
	if got := read(t, m); !reflect.DeepEqual(got, want) {
		t.Errorf("without uevent: %+v", got)
	}
	if got := read(t, faulty{m, map[string]error{"0000:00:10.0/uevent": syscall.ENODEV}, &calls}); len(got.Devices) != 2 ||
		!strings.Contains(got.Problems[0].Sentence, "vanished") {
		t.Errorf("device removed: %+v", got)
	}
}

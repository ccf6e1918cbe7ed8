package sysfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// If any file of a device cannot be read, or the device vanishes at any time, the other devices are unaffected.
func TestReadWithFaults(t *testing.T) {
	whole := machine(t, "sample").(*Machine).now.MapFS
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

// Read makes few calls: eleven for a PF, nine for a VF, ten for another device without virtio, one more for the MAC
// address of a NIC, one for each list, four for a node and two for a CPU.
func TestReadFewFiles(t *testing.T) {
	whole, calls := machine(t, "sample").(*Machine).now.MapFS, 0
	found := read(t, faulty{MapFS: whole, calls: &calls})
	most := 4 + 4*len(found.Nodes)
	for _, n := range found.Nodes {
		most += 2*len(n.CPUs) + len(n.Pages)
	}
	for _, d := range found.Devices {
		most += map[pci.Type]int{pci.Physical: 13, pci.Virtual: 10, pci.Plain: 11}[d.Type]
		if d.Type != pci.Virtual && len(d.Net) > 0 {
			most++
		}
	}
	if calls > most {
		t.Errorf("%d calls for %d devices, want at most %d", calls, len(found.Devices), most)
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

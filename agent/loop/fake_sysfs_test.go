package loop

import (
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"testing/fstest"

	"github.com/openberth/berth/pci"
)

// fakeSysfs is a /sys in memory whose content can change.
type fakeSysfs struct {
	mu   sync.Mutex
	tree fstest.MapFS
	vfs  map[pci.Address]fstest.MapFS // those that SetVFs has removed
}

// newFakeSysfs returns a /sys with two PFs of two VFs each.
func newFakeSysfs() *fakeSysfs {
	m := &fakeSysfs{tree: fstest.MapFS{}}
	for _, pf := range []string{pf1, pf2} {
		m.add(pf, "1572", "")
		m.add(strings.TrimSuffix(pf, "0")+"1", "154c", pf)
		m.add(strings.TrimSuffix(pf, "0")+"2", "154c", pf)
	}
	return m
}

func (m *fakeSysfs) add(address, product, parent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.tree)
	dir := "bus/pci/devices/" + address + "/"
	for name, text := range map[string]string{"vendor": "0x8086", "device": "0x" + product, "class": "0x020000",
		"numa_node": "1"} {
		next[dir+name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	if parent != "" {
		next[dir+"physfn"] = &fstest.MapFile{Data: []byte("../" + parent), Mode: fs.ModeSymlink}
	} else {
		next[dir+"sriov_totalvfs"] = &fstest.MapFile{Data: []byte("2\n")}
		next[dir+"sriov_numvfs"] = &fstest.MapFile{Data: []byte("2\n")}
	}
	m.tree = next
}

// remove removes a device.
func (m *fakeSysfs) remove(address string) {
	m.change(func(t fstest.MapFS) {
		maps.DeleteFunc(t, func(name string, _ *fstest.MapFile) bool {
			return strings.HasPrefix(name, "bus/pci/devices/"+address+"/")
		})
	})
}

// SetVFs removes the VFs of a PF, or returns those that were removed. It changes nothing if the PF has
// this many, or any and count is not 0.
func (m *fakeSysfs) SetVFs(pf pci.Address, count int) error {
	now := m.numVFs(pf.String())
	if now == count || now > 0 && count > 0 {
		return nil
	}
	m.change(func(t fstest.MapFS) {
		if count > 0 {
			maps.Copy(t, m.vfs[pf])
		} else {
			gone := fstest.MapFS{}
			for name, file := range t {
				dir, _, _ := strings.Cut(strings.TrimPrefix(name, "bus/pci/devices/"), "/")
				if link := t["bus/pci/devices/"+dir+"/physfn"]; link != nil && string(link.Data) == "../"+pf.String() {
					gone[name] = file
				}
			}
			maps.DeleteFunc(t, func(name string, _ *fstest.MapFile) bool { return gone[name] != nil })
			m.vfs = map[pci.Address]fstest.MapFS{pf: gone}
		}
		setFile(pf.String(), "sriov_numvfs", fmt.Sprint(count))(t)
	})
	return nil
}

// numVFs returns the number of VFs of a PF.
func (m *fakeSysfs) numVFs(pf string) (n int) {
	fmt.Sscan(string(m.now()["bus/pci/devices/"+pf+"/sriov_numvfs"].Data), &n)
	return n
}

// makeUnreadable gives a device a vendor file that cannot be parsed.
func (m *fakeSysfs) makeUnreadable(address string) {
	m.change(func(t fstest.MapFS) {
		t["bus/pci/devices/"+address+"/vendor"] = &fstest.MapFile{Data: []byte("garbage")}
	})
}

func (m *fakeSysfs) change(how func(fstest.MapFS)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.tree)
	how(next)
	m.tree = next
}

func (m *fakeSysfs) now() fstest.MapFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tree
}

func (m *fakeSysfs) Open(name string) (fs.File, error)          { return m.now().Open(name) }
func (m *fakeSysfs) ReadLink(name string) (string, error)       { return m.now().ReadLink(name) }
func (m *fakeSysfs) Lstat(name string) (fs.FileInfo, error)     { return m.now().Lstat(name) }
func (m *fakeSysfs) ReadDir(name string) ([]fs.DirEntry, error) { return m.now().ReadDir(name) }

// setFile writes a file of a device, or removes it when text is empty.
func setFile(address, file, text string) func(fstest.MapFS) {
	name := "bus/pci/devices/" + address + "/" + file
	return func(t fstest.MapFS) {
		if delete(t, name); text != "" {
			t[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
}

// makeVF makes a device a VF of a PF.
func makeVF(address, pf string) func(fstest.MapFS) {
	return func(t fstest.MapFS) {
		setFile(address, "sriov_totalvfs", "")(t)
		t["bus/pci/devices/"+address+"/physfn"] = &fstest.MapFile{Data: []byte("../" + pf), Mode: fs.ModeSymlink}
	}
}

// numaNodes gives the host two NUMA nodes of four threads, each on its own socket; the first PF is on node 0, the
// second on node 1.
func (w *testHost) numaNodes() {
	w.sysfs.change(func(t fstest.MapFS) {
		put := func(name, text string) { t[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
		for node, cpus := range []string{"0-1,4-5", "2-3,6-7"} {
			dir := "devices/system/node/node" + string(rune('0'+node))
			put(dir+"/cpulist", cpus)
			put(dir+"/meminfo", "Node 0 MemTotal: 4194304 kB")
		}
		put("devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "512")
		for cpu := range 8 {
			dir := "devices/system/cpu/cpu" + string(rune('0'+cpu)) + "/topology/"
			put(dir+"physical_package_id", string(rune('0'+cpu/2%2)))
			put(dir+"thread_siblings_list", string(rune('0'+cpu%4))+","+string(rune('4'+cpu%4)))
		}
		for name := range t {
			if strings.HasSuffix(name, "/numa_node") {
				put(name, map[bool]string{true: "0", false: "1"}[strings.Contains(name, "0000:3b:")])
			}
		}
	})
}

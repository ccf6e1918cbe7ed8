package sysfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
)

// tree is a machine in a real directory, which a test damages. Nothing is written outside it, whatever links it has.
type tree struct {
	t    testing.TB
	root *os.Root
	dir  string
	// deny has errors by path, as the agent uses it. The error of a directory also applies to everything below it;
	// with "/." only listing the directory fails.
	deny map[string]error

	complete bool // newTree has finished
}

// The device directories of a new tree: the entry in the device list, and the real directory.
const (
	treePF     = deviceDir + "/0000:81:00.0"
	treeVF     = deviceDir + "/0000:81:00.1"
	treeNIC    = deviceDir + "/0000:82:00.0" // of virtio
	realPF     = "devices/pci0000:80/0000:80:01.0/0000:81:00.0"
	realVF     = "devices/pci0000:80/0000:80:01.0/0000:81:00.1"
	realNIC    = "devices/pci0000:80/0000:80:02.0/0000:82:00.0"
	node0      = nodeDir + "/node0"
	firstVDPA  = vdpaDir + "/vdpa0"
	manyBytes  = maxKept + 1
	fakeMarker = "0x8086\n-- " + treePF + "/numa_node --\n7\n"
)

// maxKept is larger than any file of /sys that is read.
const maxKept = 200 << 10

// newTree creates a PF with a VF that carries vDPA, a virtio NIC, and one NUMA node of two threads.
func newTree(t testing.TB) *tree {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	w := &tree{t: t, root: root, dir: dir, deny: map[string]error{}}
	device := func(at, address, product, driver string) {
		w.link(deviceDir+"/"+address, "../../../"+at)
		w.file(at+"/uevent", "DRIVER="+driver+"\nPCI_CLASS=20000\nPCI_ID=8086:"+product+"\nPCI_SLOT_NAME="+address+"\n")
		w.file(at+"/vendor", "0x8086\n")
		w.file(at+"/device", "0x"+product+"\n")
		w.file(at+"/class", "0x020000\n")
		w.file(at+"/numa_node", "0\n")
		w.link(at+"/driver", "../../../../bus/pci/drivers/"+driver)
		w.link(at+"/iommu_group", "../../../../kernel/iommu_groups/1")
	}
	device(realPF, "0000:81:00.0", "1528", "ixgbe")
	device(realVF, "0000:81:00.1", "1515", "ixgbevf")
	device(realNIC, "0000:82:00.0", "1041", "virtio-pci")
	w.file(realPF+"/sriov_totalvfs", "4\n")
	w.file(realPF+"/sriov_numvfs", "1\n")
	w.file(realPF+"/sriov_vf_device", "1515\n")
	w.file(realPF+"/vpd", vpd("SN\x04S123"))
	w.link(realPF+"/virtfn0", "../0000:81:00.1")
	w.file(realPF+"/net/ens1/address", "52:54:00:12:34:56\n")
	w.link(realVF+"/physfn", "../0000:81:00.0")
	w.file(realNIC+"/virtio2/net/eth0/address", "52:54:00:12:34:57\n")
	w.link(firstVDPA, "../../../"+realVF+"/vdpa0")
	w.file(node0+"/cpulist", "0-1\n")
	w.file(node0+"/meminfo", "Node 0 MemTotal:  2097152 kB\nNode 0 MemFree: 1 kB\n")
	w.file(node0+"/hugepages/hugepages-2048kB/nr_hugepages", "512\n")
	for _, cpu := range []string{"cpu0", "cpu1"} {
		w.file(cpuDir+"/"+cpu+"/topology/physical_package_id", "0\n")
		w.file(cpuDir+"/"+cpu+"/topology/thread_siblings_list", "0-1\n")
	}
	w.complete = true
	return w
}

// clear removes what is at a path, and reports whether something can be created there.
func (w *tree) clear(name string) bool {
	if !w.complete {
		return w.root.MkdirAll(path.Dir(name), 0o755) == nil
	}
	return w.root.RemoveAll(name) == nil && w.root.MkdirAll(path.Dir(name), 0o755) == nil
}

// file, link, mkdir and remove change one path of the tree.
func (w *tree) file(name, data string) {
	if w.clear(name) {
		_ = w.root.WriteFile(name, []byte(data), 0o644)
	}
}

func (w *tree) link(name, target string) {
	if w.clear(name) {
		_ = w.root.Symlink(target, name)
	}
}

func (w *tree) mkdir(name string) {
	if w.clear(name) {
		_ = w.root.Mkdir(name, 0o755)
	}
}

func (w *tree) remove(name string) { _ = w.root.RemoveAll(name) }

// fsys returns the tree as the agent reads it: a directory in which some names cannot be read.
func (w *tree) fsys() fs.FS { return &denying{os.DirFS(w.dir), w.deny} }

// denying is a file system in which some names, and what is below them, cannot be read.
type denying struct {
	fs.FS
	deny map[string]error
}

func (d *denying) check(op, name string) error {
	for at := name; at != "."; at = path.Dir(at) {
		if err := d.deny[at]; err != nil {
			info, statErr := fs.Stat(d.FS, at)
			_, there := fs.Lstat(d.FS, at)
			if at == name && there == nil || statErr == nil && info.IsDir() {
				return &fs.PathError{Op: op, Path: name, Err: err}
			}
		}
	}
	return nil
}

func (d *denying) Open(name string) (fs.File, error) {
	if err := d.check("open", name); err != nil {
		return nil, err
	}
	return d.FS.Open(name)
}

func (d *denying) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := d.check("readdir", name); err != nil {
		return nil, err
	}
	if err := d.deny[name+"/."]; err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	return fs.ReadDir(d.FS, name)
}

func (d *denying) Stat(name string) (fs.FileInfo, error) {
	if err := d.check("stat", path.Dir(name)); err != nil {
		return nil, err
	}
	return fs.Stat(d.FS, name)
}

func (d *denying) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(d.FS, name) }

func (d *denying) ReadLink(name string) (string, error) {
	if err := d.check("readlink", name); err != nil {
		return "", err
	}
	return fs.ReadLink(d.FS, name)
}

// damage is a change of a tree.
type damage = func(w *tree)

func putFile(name, data string) damage { return func(w *tree) { w.file(name, data) } }

func putLink(name, target string) damage { return func(w *tree) { w.link(name, target) } }

func putDir(name string) damage { return func(w *tree) { w.mkdir(name) } }

func drop(name string) damage { return func(w *tree) { w.remove(name) } }

func deny(name string, err error) damage { return func(w *tree) { w.deny[name] = err } }

func withoutUevent(also damage) damage { return both(drop(realPF+"/uevent"), also) }

func numbers(name, data string) damage { return withoutUevent(putFile(realPF+"/"+name, data)) }

// both combines several changes.
func both(list ...damage) damage {
	return func(w *tree) {
		for _, one := range list {
			one(w)
		}
	}
}

const kindsOfDamage = 5

// places are the paths that a test can damage.
var places = func() []string {
	list := []string{firstVDPA, vdpaDir, vdpaDir + "/x y", node0, nodeDir + "/node1", node0 + "/cpulist", node0 +
		"/meminfo", node0 + "/hugepages",
		node0 + "/hugepages/hugepages-2048kB/nr_hugepages", cpuDir + "/cpu1/topology/physical_package_id", cpuDir +
			"/cpu0/topology/thread_siblings_list",
		deviceDir + "/0000:83:00.0", deviceDir + "/slot\xff 7", treePF, treeVF, treeNIC, realNIC + "/virtio1", realNIC +
			"/virtio2/net", nodeDir}
	for _, dir := range []string{realPF, realVF, realNIC} {
		list = append(list, dir)
		for _, name := range []string{"uevent", "vendor", "device", "class", "numa_node", "sriov_totalvfs",
			"sriov_numvfs", "sriov_vf_device", "driver",
			"iommu_group", "physfn", "net", "vpd", "virtfn0", "subsystem_vendor", "net/a -> b", "virtio0"} {
			list = append(list, dir+"/"+name)
		}
	}
	return list
}()

// damage makes one change to one path, whatever exists there.
func (w *tree) damage(place string, kind, which int) {
	texts := []string{"", "\n", "0", "1\n", "-1\n", "0x8086\n", "0x1515", "0x020000\n", "7", "1515\n", "0-1\n", "x",
		"\x00\xff", fakeMarker, "-- a --\n", "\\",
		"PCI_CLASS=20000\nPCI_ID=8086:1515\n", "PCI_ID=1:2\nPCI_CLASS=x\nDRIVER=a -> b\n", "Node 0 MemTotal: 1024 kB\n",
		strings.Repeat("0", manyBytes),
		vpd("SN\x02ab"), "2048,1", "1-x"}
	targets := []string{"..", ".", w.dir, "nowhere", "driver", "../0000:81:00.0", "../../../" + realPF, "../../../" +
		realVF, "../../../" + realNIC + "/",
		strings.Repeat("../", 30) + "0000:81:00.1", "/nowhere/0000:81:00.1/x", "a -> b", "\xff\n-- c --",
		"0000:81:00.0", "0000:82:00.0", "virtio-pci", "12",
		"../../../devices", "node0", w.dir + "/" + realPF, "%41", "virtfn0"}
	errs := []error{syscall.EACCES, syscall.EPERM, syscall.EIO, syscall.ENODEV, fs.ErrNotExist,
		errors.New("odd\nerror ")}
	switch kind % kindsOfDamage {
	case 0:
		w.file(place, texts[which%len(texts)])
	case 1:
		w.link(place, targets[which%len(targets)])
	case 2:
		w.mkdir(place)
	case 3:
		w.remove(place)
	case 4:
		place = strings.NewReplacer(realPF, treePF, realVF, treeVF, realNIC, treeNIC).Replace(place)
		w.deny[place] = errs[which%len(errs)]
	}
}

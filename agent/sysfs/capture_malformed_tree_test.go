package sysfs

import (
	"bytes"
	"io/fs"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/pci"
)

// readAll reads a machine with its serial numbers, each replaced by "0" as in a capture, and without the MAC addresses
// of its NICs.
func readAll(t testing.TB, fsys fs.FS) facts.Facts {
	t.Helper()
	found := read(t, fsys)
	ReadSerials(&found, fsys, func(pci.Device) bool { return true })
	for i := range found.Devices {
		if found.Devices[i].Serial != "" {
			found.Devices[i].Serial = "0"
		}
		if found.Devices[i].Parent == nil {
			found.Devices[i].PFMAC = ""
		}
	}
	return found
}

// checkCapture captures a machine, loads the text, and compares devices, nodes and problems. A second capture must
// have the same text.
func checkCapture(t testing.TB, fsys fs.FS) facts.Facts {
	t.Helper()
	want := readAll(t, fsys)
	text, err := Capture(fsys)
	if err != nil {
		t.Fatalf("%v", err)
	}
	loaded, err := Load(text)
	if err != nil {
		t.Fatalf("the snapshot cannot be loaded: %v\n%s", err, text)
	}
	if got := readAll(t, loaded); !reflect.DeepEqual(got, want) {
		t.Errorf("snapshot:\n%+v\nmachine:\n%+v\n%s", got, want, text)
	}
	again, err := Capture(loaded)
	if err != nil || !bytes.Equal(again, text) {
		t.Errorf("second capture: %v\n%s\nfirst:\n%s", err, again, text)
	}
	for _, secret := range []string{"52:54", "S123"} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the snapshot contains %q:\n%s", secret, text)
		}
	}
	return want
}

// TestCaptureOfMalformedTrees tests that the snapshot of a damaged machine can be loaded, and has the same devices,
// nodes and problems.
func TestCaptureOfMalformedTrees(t *testing.T) {
	up := strings.Repeat("../", 20)
	for name, harm := range map[string]damage{
		"nothing": both(),

		"a driver above the root":       withoutUevent(putLink(realPF+"/driver", up+"bus/pci/drivers/nvme")),
		"an absolute driver":            withoutUevent(putLink(realPF+"/driver", "/sys/bus/pci/drivers/nvme")),
		"a driver that ends in dots":    withoutUevent(putLink(realPF+"/driver", up+"..")),
		"a driver that is the root":     withoutUevent(putLink(realPF+"/driver", "/")),
		"a driver called driver":        withoutUevent(putLink(realPF+"/driver", "x/driver")),
		"a driver called physfn":        both(putLink(realVF+"/driver", "x/physfn"), drop(realVF+"/uevent")),
		"a driver of odd bytes":         withoutUevent(putLink(realPF+"/driver", "x/a -> b --\n-- c\xff%41 ")),
		"a driver that is a file":       withoutUevent(putFile(realPF+"/driver", "nvme\n")),
		"a driver that is a directory":  withoutUevent(putDir(realPF + "/driver")),
		"a driver that is denied":       withoutUevent(deny(treePF+"/driver", fs.ErrPermission)),
		"an iommu_group above the root": putLink(realPF+"/iommu_group", up+"kernel/iommu_groups/7"),
		"a physfn above the root":       putLink(realVF+"/physfn", up+"0000:81:00.0"),
		"a physfn that is a file":       putFile(realVF+"/physfn", "0000:81:00.0"),
		"a physfn that leads to dots":   putLink(realVF+"/physfn", ".."),
		"virtfn0 above the root":        putLink(realPF+"/virtfn0", up+"0000:81:00.1"),
		"virtfnx":                       putLink(realPF+"/virtfn\n", "virtfn0"),

		"no uevent":             drop(realPF + "/uevent"),
		"uevent is empty":       putFile(realPF+"/uevent", ""),
		"uevent is a directory": putDir(realPF + "/uevent"),
		"uevent is huge":        putFile(realPF+"/uevent", strings.Repeat("X=1\n", manyBytes/4)),
		"uevent contradicts the files": putFile(realPF+"/uevent",
			"PCI_CLASS=10802\nPCI_ID=10DE:20B0\nMAC=52:54:00:00:00:01\n"),
		"uevent denied":       deny(treePF+"/uevent", syscall.EACCES),
		"uevent fails":        deny(treePF+"/uevent", syscall.EIO),
		"uevent has vanished": deny(treePF+"/uevent", syscall.ENODEV),

		"no vendor":                   both(numbers("vendor", ""), drop(realPF+"/vendor")),
		"vendor is empty":             numbers("vendor", ""),
		"vendor is blank":             numbers("vendor", " \n\n"),
		"vendor has no newline":       numbers("vendor", "0x8086"),
		"vendor is huge":              numbers("vendor", strings.Repeat("0x8086\n", manyBytes/7)),
		"vendor is long":              numbers("vendor", strings.Repeat("8", 4096)),
		"vendor has an entry":         numbers("vendor", fakeMarker),
		"vendor is an entry":          numbers("vendor", "-- a --\n\\-- b --\n\\\r\n-- c --\r\n"),
		"vendor has odd bytes":        numbers("vendor", "\x00\xff\xfe\r"),
		"vendor is a directory":       both(numbers("vendor", ""), putDir(realPF+"/vendor")),
		"vendor is denied":            both(numbers("vendor", "0x8086"), deny(treePF+"/vendor", syscall.EPERM)),
		"vendor is a loop":            both(numbers("vendor", ""), putLink(realPF+"/vendor", "vendor")),
		"vendor leads nowhere":        both(numbers("vendor", ""), putLink(realPF+"/vendor", "nowhere")),
		"numa_node is denied":         deny(treePF+"/numa_node", syscall.EIO),
		"no numa_node":                both(drop(realPF+"/numa_node"), drop(realVF+"/numa_node")),
		"no numa_node of a VF":        drop(realVF + "/numa_node"),
		"numa_node is empty":          putFile(realNIC+"/numa_node", "\n"),
		"no sriov_numvfs":             drop(realPF + "/sriov_numvfs"),
		"empty sriov files":           both(putFile(realPF+"/sriov_numvfs", ""), putFile(realPF+"/sriov_vf_device", "")),
		"empty sriov_totalvfs":        putFile(realPF+"/sriov_totalvfs", ""),
		"sriov_totalvfs has vanished": deny(treePF+"/sriov_totalvfs", fs.ErrNotExist),

		"a device that leads nowhere":     drop(realPF),
		"a device above the root":         putLink(treePF, up+"devices/0000:81:00.0"),
		"an absolute device":              func(w *tree) { w.link(treePF, w.dir+"/"+realPF) },
		"a device that is a loop":         putLink(treePF, "0000:81:00.0"),
		"devices that lead to each other": both(putLink(treePF, "0000:81:00.1"), putLink(treeVF, "0000:81:00.0")),
		"two names of one device":         putLink(treePF, "../../../"+realVF),
		"a device by another's link":      putLink(treePF, "0000:81:00.1"),
		"a device inside another's net":   putLink(treeVF, "../../../"+realPF+"/net/ens1"),
		"a device that is a NUMA node":    putLink(treeVF, "../../../"+node0),
		"a device that is the root":       putLink(treeVF, "../../.."),
		"a device that is a directory": both(putDir(treePF), putFile(treePF+"/vendor", "0x8086"),
			putFile(treePF+"/device", "0x1528")),
		"a device that is empty":            putDir(treePF),
		"a device whose directory is empty": putDir(realPF),
		"a device that is a file":           putFile(treePF, "0x8086\n"),
		"a device that is denied":           deny(treePF, syscall.EACCES),
		"a directory that is not listed":    deny(treeNIC+"/.", syscall.EACCES),
		"names that are not addresses": func(w *tree) {
			for _, name := range []string{"a b", "x -> y", "0000:82:00.0 --", "-- z", "%41", "\xff\n", "n.SN", "é",
				"a !! b", "\\"} {
				w.link(deviceDir+"/"+name, "../../../"+realPF)
			}
		},
		"an address in capitals": putLink(deviceDir+"/0000:8A:00.0", "../../../"+realNIC),

		"net is a file":       putFile(realPF+"/net", ""),
		"net is empty":        putDir(realPF + "/net"),
		"net is denied":       deny(treePF+"/net", syscall.EACCES),
		"net leads elsewhere": putLink(realPF+"/net", "../../../../"+nodeDir),
		"odd interfaces": func(w *tree) {
			w.mkdir(realPF + "/net/a b")
			w.mkdir(realPF + "/net/\xff\n--")
			w.file(realPF+"/net/%20", "")
		},
		"virtio without interfaces": both(putDir(realNIC+"/virtio1"), putFile(realNIC+"/virtio0", "")),
		"virtio with an odd name":   putDir(realNIC + "/virtio\xff"),

		"vDPA above the root": putLink(firstVDPA, up+"devices/0000:81:00.1/vdpa0"),
		"vDPA of nothing":     putLink(firstVDPA, ".."),
		"vDPA that is a file": putFile(firstVDPA, ""),
		"vDPA called like its VF": both(putLink(vdpaDir+"/0000:81:00.1", "../../../"+realVF+"/vdpa1"),
			drop(firstVDPA)),
		"vDPA with odd names":      putLink(vdpaDir+"/a\n\xff", up+"0000:81:00.1/b\n-- c --"),
		"vDPA that is denied":      deny(vdpaDir, syscall.EACCES),
		"vDPA that is a directory": both(putDir(vdpaDir), putDir(firstVDPA)),

		"no cpulist":               drop(node0 + "/cpulist"),
		"cpulist is denied":        deny(node0+"/cpulist", syscall.EACCES),
		"cpulist is garbage":       putFile(node0+"/cpulist", strings.Repeat("x", 1000)),
		"no meminfo":               drop(node0 + "/meminfo"),
		"meminfo is empty":         putFile(node0+"/meminfo", ""),
		"meminfo without MemTotal": putFile(node0+"/meminfo", "Node 0 MemFree: 1 kB\n"),
		"meminfo with two MemTotals": func(w *tree) {
			w.file(node0+"/meminfo", "Node 0 MemTotal: 1024 kB\n-- MemTotal: --\nNode 0 MemTotal: 2048 kB")
		},
		"meminfo is a directory":    putDir(node0 + "/meminfo"),
		"a node that is empty":      putDir(nodeDir + "/node1"),
		"a node that is a file":     putFile(nodeDir+"/node1", ""),
		"a node that leads nowhere": putLink(nodeDir+"/node1", "nowhere"),
		"a node that is a loop":     putLink(nodeDir+"/node1", "node1"),
		"a node by a link":          putLink(nodeDir+"/node1", "node0"),
		"one CPU on two nodes": both(putFile(nodeDir+"/node1/cpulist", "1"), putFile(nodeDir+"/node01/cpulist",
			"1")),
		"huge pages without a number": putDir(node0 + "/hugepages/hugepages-1048576kB"),
		"huge pages denied":           deny(node0+"/hugepages/hugepages-2048kB/nr_hugepages", syscall.EACCES),
		"huge pages are not listed":   deny(node0+"/hugepages", syscall.EACCES),
		"siblings are garbage":        putFile(cpuDir+"/cpu0/topology/thread_siblings_list", "\\-- x --\n-- y --\n"),
		"a socket is denied":          deny(cpuDir+"/cpu1/topology/physical_package_id", syscall.EACCES),

		"vpd is garbage":     putFile(realPF+"/vpd", "serial S123"),
		"vpd is a directory": putDir(realPF + "/vpd"),
		"vpd is denied":      deny(treePF+"/vpd", syscall.EACCES),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTree(t)
			harm(w)
			checkCapture(t, w.fsys())
		})
	}
}

// TestCaptureRefuses tests that a machine whose device list or node list cannot be read is not captured.
func TestCaptureRefuses(t *testing.T) {
	for _, dir := range []string{deviceDir, nodeDir} {
		w := newTree(t)
		w.deny[dir] = syscall.EACCES
		if text, err := Capture(w.fsys()); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v\n%s", dir, err, text)
		}
	}
}

// FuzzCapture damages a machine at random: each three bytes select a path, a kind of change (a file, a link, a
// directory, removal or an error) and its value. The snapshot must load with the same result.
func FuzzCapture(f *testing.F) {
	f.Add([]byte{})
	for place := 0; place < len(places); place += 4 {
		f.Add([]byte{byte(place), byte(place % kindsOfDamage), byte(place), byte(place + 1), byte(place/kindsOfDamage +
			1), byte(place)})
	}
	f.Fuzz(func(t *testing.T, damage []byte) {
		w := newTree(t)
		for step := range slices.Chunk(damage[:min(len(damage), 60)], 3) {
			if len(step) == 3 {
				w.damage(places[int(step[0])%len(places)], int(step[1]), int(step[2]))
			}
		}
		if _, err := Read(w.fsys()); err != nil {
			if text, err := Capture(w.fsys()); err == nil {
				t.Errorf("a machine that cannot be read was captured:\n%s", text)
			}
			return
		}
		if text, err := Capture(w.fsys()); err != nil {
			if found := read(t, w.fsys()); len(found.Devices)+len(found.Problems) > 0 && !strings.Contains(err.Error(),
				"no PCI device") {
				t.Errorf("%v\n%s", err, text)
			}
			return
		}
		checkCapture(t, w.fsys())
	})
}

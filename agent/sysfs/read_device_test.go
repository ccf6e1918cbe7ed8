package sysfs

import (
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
)

const pfAt, vfAt = "0000:81:00.0", "0000:81:00.1"

// card returns a PF with one VF that carries a vDPA device, both on node 1 of two.
func card() fstest.MapFS {
	m := fstest.MapFS{}
	put := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	link := func(name, to string) {
		m[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
	}
	for address, product := range map[string]string{pfAt: "0x1528", vfAt: "0x1515"} {
		dir := deviceDir + "/" + address
		put(dir+"/vendor", "0x8086")
		put(dir+"/device", product)
		put(dir+"/class", "0x020000")
		put(dir+"/numa_node", "1")
	}
	put(deviceDir+"/"+pfAt+"/sriov_totalvfs", "4")
	put(deviceDir+"/"+pfAt+"/sriov_numvfs", "1")
	put(deviceDir+"/"+pfAt+"/sriov_vf_device", "1515")
	link(deviceDir+"/"+vfAt+"/physfn", "../"+pfAt)
	link(vdpaDir+"/vdpa0", "../../../devices/pci0000:80/"+pfAt+"/"+vfAt+"/vdpa0")
	put(nodeDir+"/node0/cpulist", "0")
	put(nodeDir+"/node1/cpulist", "1")
	put(nodeDir+"/node0/meminfo", "Node 0 MemTotal: 1048576 kB")
	put(nodeDir+"/node1/meminfo", "Node 1 MemTotal: 1048576 kB")
	return m
}

// TestDeviceFiles tests valid and invalid files of a device: a problem of one device does not affect the other.
func TestDeviceFiles(t *testing.T) {
	whole := func(m fstest.MapFS) {}
	set := func(name, text string) func(fstest.MapFS) {
		return func(m fstest.MapFS) { m[name] = &fstest.MapFile{Data: []byte(text)} }
	}
	without := func(name string) func(fstest.MapFS) { return func(m fstest.MapFS) { delete(m, name) } }
	pf, vf := deviceDir+"/"+pfAt, deviceDir+"/"+vfAt
	for _, c := range []struct {
		row     string
		change  func(fstest.MapFS)
		fail    map[string]error
		devices string // address type node, of each
		problem string // part of the only problem; empty for none
	}{
		{row: "a PF, and a VF with vDPA", change: whole, devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1"},
		{row: "vDPA made by hand under another name", change: func(m fstest.MapFS) {
			m[vdpaDir+"/mine"] = m[vdpaDir+"/vdpa0"]
			delete(m, vdpaDir+"/vdpa0")
		}, devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1"},
		{row: "no vDPA", change: without(vdpaDir + "/vdpa0"), devices: "81:00.0 type-PF 1, 81:00.1 type-VF 1"},
		{row: "vDPA of a PF", change: func(m fstest.MapFS) {
			m[vdpaDir+"/vdpa0"] = &fstest.MapFile{Data: []byte("../../../devices/pci0000:80/" + pfAt + "/vdpa0"),
				Mode: fs.ModeSymlink}
		}, devices: "81:00.0 type-PF 1, 81:00.1 type-VF 1"},
		{row: "vDPA that cannot be listed", change: whole, fail: map[string]error{vdpaDir: fs.ErrPermission},
			devices: "81:00.0 type-PF 1, 81:00.1 type-VF 1",
			problem: "vdpa: bus/vdpa/devices cannot be listed (permission denied)"},
		{row: "vDPA that cannot be followed", change: whole, fail: map[string]error{"vdpa0": fs.ErrPermission},
			devices: "81:00.0 type-PF 1, 81:00.1 type-VF 1",
			problem: "vdpa0: this entry of bus/vdpa/devices cannot be read (permission denied)"},
		{row: "no VFs possible", change: set(pf+"/sriov_totalvfs", "0"), devices: "81:00.0 type-PCI 1, 81:00.1 vdpa 1"},
		{row: "totalvfs cannot be read", change: whole, fail: map[string]error{"sriov_totalvfs": fs.ErrPermission},
			devices: "81:00.1 vdpa 1",
			problem: "permission denied"},
		{row: "no such directory", change: func(m fstest.MapFS) {
			for name := range m {
				if strings.HasPrefix(name, pf) {
					delete(m, name)
				}
			}
		}, devices: "81:00.1 vdpa 1", problem: "physfn leads to 0000:81:00.0, which does not exist"},
		{row: "an empty vendor", change: set(pf+"/vendor", ""), devices: "81:00.1 vdpa 1",
			problem: `vendor "" is not a number`},
		{row: "an empty product", change: set(pf+"/device", "\n"), devices: "81:00.1 vdpa 1",
			problem: `device "" is not a number`},
		{row: "vendor cannot be read", change: whole, fail: map[string]error{pfAt + "/vendor": syscall.EIO},
			devices: "81:00.1 vdpa 1", problem: "input/output"},
		{row: "product cannot be read", change: whole, fail: map[string]error{pfAt + "/device": syscall.EIO},
			devices: "81:00.1 vdpa 1", problem: "input/output"},
		{row: "interfaces cannot be listed", change: whole, fail: map[string]error{pfAt + "/net": syscall.EIO},
			devices: "81:00.1 vdpa 1", problem: "input/output"},
		{row: "a device vanishes between its list and its files", change: whole,
			fail:    map[string]error{vfAt: fs.ErrNotExist, vfAt + "/vendor": fs.ErrNotExist},
			devices: "81:00.0 type-PF 1", problem: "vanished while it was read"},
		{row: "a directory without vendor is not a vanished device", change: without(vf + "/vendor"),
			devices: "81:00.0 type-PF 1",
			problem: "0000:81:00.1: vendor is missing, so the device is unreadable"},
		{row: "a directory without device", change: without(vf + "/device"), devices: "81:00.0 type-PF 1",
			problem: "0000:81:00.1: device is missing, so the device is unreadable"},
		{row: "a directory without class", change: without(vf + "/class"), devices: "81:00.0 type-PF 1",
			problem: "0000:81:00.1: class is missing, so the device is unreadable"},
		{row: "a directory with nothing in it", change: func(m fstest.MapFS) {
			for _, name := range []string{"vendor", "device", "class", "numa_node", "physfn"} {
				delete(m, vf+"/"+name)
			}
			m[vf] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
		}, devices: "81:00.0 type-PF 1", problem: "0000:81:00.1: vendor is missing, so the device is unreadable"},
		{row: "a device vanishes between two of its files", change: whole,
			fail:    map[string]error{vfAt + "/numa_node": syscall.ENODEV},
			devices: "81:00.0 type-PF 1", problem: "vanished while it was read"},
		{row: "no NUMA node is known", change: func(m fstest.MapFS) {
			set(pf+"/numa_node", "-1")(m)
			set(vf+"/numa_node", "-1")(m)
		}, devices: "81:00.0 type-PF -1, 81:00.1 vdpa -1"},
		{row: "a VF without a node gets the node of its PF", change: set(vf+"/numa_node", "-1"),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1"},
		{row: "a VF and its PF have different nodes", change: set(vf+"/numa_node", "0"),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 0",
			problem: "numa_node is 0, but 1 of its PF 0000:81:00.0"},
		{row: "no numa_node of a PF", change: func(m fstest.MapFS) {
			delete(m, pf+"/numa_node")
		}, devices: "81:00.0 type-PF -1, 81:00.1 vdpa 1", problem: "0000:81:00.0: numa_node is missing: the node is " +
			"taken as unknown; "},
		{row: "no numa_node of a VF", change: without(vf + "/numa_node"), devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1",
			problem: "0000:81:00.1: numa_node is missing: node 1 of its PF 0000:81:00.0 is assumed; "},
		{row: "an empty numa_node", change: set(pf+"/numa_node", ""), devices: "81:00.0 type-PF -1, 81:00.1 vdpa 1",
			problem: `0000:81:00.0: numa_node "" is not the number of a node: the node is taken as unknown; `},
		{row: "no numa_node on a host without NUMA nodes", change: func(m fstest.MapFS) {
			for name := range m {
				if strings.HasPrefix(name, nodeDir) || strings.HasSuffix(name, "/numa_node") {
					delete(m, name)
				}
			}
		}, devices: "81:00.0 type-PF -1, 81:00.1 vdpa -1"},
		{row: "no numa_node of a bridge", change: func(m fstest.MapFS) {
			without(pf + "/numa_node")(m)
			set(pf+"/class", "0x060400")(m)
		}, devices: "81:00.0 type-PF -1, 81:00.1 vdpa 1"},
		{row: "a node that the host does not have", change: set(vf+"/numa_node", "7"),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1",
			problem: "numa_node is 7, which the host does not have"},
		{row: "a node that cannot be read exists", change: whole, fail: map[string]error{"node1/cpulist": fs.ErrPermission},
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1", problem: "permission denied"},
		{row: "a kernel without NUMA", change: func(m fstest.MapFS) {
			for _, name := range []string{"/node0/cpulist", "/node1/cpulist", "/node0/meminfo", "/node1/meminfo"} {
				delete(m, nodeDir+name)
			}
		}, devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1"},
		{row: "sriov_vf_device is not a number", change: set(pf+"/sriov_vf_device", "x"),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1",
			problem: `sriov_vf_device "x"`},
		{row: "an empty sriov_vf_device", change: set(pf+"/sriov_vf_device", "\n"),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1",
			problem: `0000:81:00.0: sriov_vf_device "" is not a number: the product_id of its VFs is taken from the ` +
				`VFs that exist; `},
		{row: "an old kernel without sriov_vf_device", change: without(pf + "/sriov_vf_device"),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1"},
		{row: "an empty sriov_numvfs", change: set(pf+"/sriov_numvfs", ""),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1", problem: `sriov_numvfs "" is not a number`},
		{row: "an empty sriov_totalvfs", change: set(pf+"/sriov_totalvfs", ""), devices: "81:00.1 vdpa 1",
			problem: `0000:81:00.0: sriov_totalvfs "" is not a number, so the device is unreadable`},
		{row: "a node without meminfo", change: without(nodeDir + "/node1/meminfo"),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1",
			problem: "node1: meminfo is missing: the node is taken as one without memory"},
		{row: "a node without cpulist", change: without(nodeDir + "/node1/cpulist"),
			devices: "81:00.0 type-PF 1, 81:00.1 vdpa 1",
			problem: "node1: cpulist is missing: the node is taken as one without CPUs"},
	} {
		t.Run(c.row, func(t *testing.T) {
			m, calls := card(), 0
			c.change(m)
			found := read(t, faulty{m, c.fail, &calls})
			var words []string
			for _, d := range found.Devices {
				words = append(words, fmt.Sprintf("%s %s %d", strings.TrimPrefix(d.Address.String(), "0000:"), d.Type, d.NUMANode))
			}
			if got := strings.Join(words, ", "); got != c.devices {
				t.Errorf("got  %s\nwant %s", got, c.devices)
			}
			var problems []string
			for _, p := range found.Problems {
				if !strings.Contains(p.String(), "which does not exist") ||
					c.row == "no such directory" { // the VF reports its missing PF
					problems = append(problems, p.String())
				}
			}
			if text := strings.Join(problems, "\n"); (text == "") != (c.problem == "") || !strings.Contains(text, c.problem) ||
				len(problems) > 1 {
				t.Errorf("problems %q, want %q", text, c.problem)
			}
		})
	}
}

// TestSeveralInterfaces tests that a device has all of its network interfaces.
func TestSeveralInterfaces(t *testing.T) {
	m := card()
	for _, name := range []string{"ens1f0", "ens1f0v9"} {
		m[deviceDir+"/"+pfAt+"/net/"+name+"/mtu"] = &fstest.MapFile{Data: []byte("1500\n")}
	}
	found := read(t, m)
	if got := fmt.Sprint(deviceAt(t, found, pfAt).Net, deviceAt(t, found, vfAt).Net); got != "[ens1f0 ens1f0v9] []" {
		t.Error(got)
	}
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

package sysfs

import (
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/pci"
)

// superchip returns a machine with two sockets whose GPUs have their memory as nodes without CPUs, each with the
// distances 80 to the node of its own socket and 120 to the other.
func superchip() fstest.MapFS {
	m := fstest.MapFS{}
	put := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	for id, n := range []struct{ cpus, distance string }{{"0-1", "10 40 80 120"}, {"2-3", "40 10 120 80"},
		{"", "80 120 10 120"}, {"", "120 80 120 10"}} {
		dir := fmt.Sprintf("%s/node%d", nodeDir, id)
		put(dir+"/cpulist", n.cpus)
		put(dir+"/meminfo", fmt.Sprintf("Node %d MemTotal: 1048576 kB", id))
		put(dir+"/distance", n.distance)
	}
	for cpu := range 4 {
		put(fmt.Sprintf("%s/cpu%d/topology/physical_package_id", cpuDir, cpu), fmt.Sprint(cpu/2))
	}
	for at, node := range map[string]string{
		"pci0008:00/0008:00:00.0/0008:01:00.0":                                 "2",
		"pci0018:00/0018:00:00.0/0018:01:00.0/0018:02:00.0/0018:03:00.0":       "3", // below a switch
		"pci0000:97/0000:97:00.5/pci10000:e0/10000:e0:01.0/10000:e1:00.0":      "0", // below a VMD controller
		"pci0000:00/0000:00:1f.0":                                              "0",
		"platform/NVDA0001:00/pci0010:00/0010:00:00.0/0010:01:00.0":            "1",
		"LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/pci4711:00/4711:00:02.0": "1",
	} {
		at = "devices/" + at
		put(at+"/vendor", "0x10de")
		put(at+"/device", "0x2941")
		put(at+"/class", "0x030200")
		put(at+"/numa_node", node)
		m[deviceDir+"/"+lastElement(at)] = &fstest.MapFile{Data: []byte("../../../" + at), Mode: fs.ModeSymlink | 0o777}
	}
	return m
}

func TestDistances(t *testing.T) {
	found := read(t, superchip())
	want := []map[int]int{{0: 10, 1: 40, 2: 80, 3: 120}, {0: 40, 1: 10, 2: 120, 3: 80}, {0: 80, 1: 120, 2: 10, 3: 120},
		{0: 120, 1: 80, 2: 120, 3: 10}}
	var got []map[int]int
	for _, n := range found.Nodes {
		got = append(got, n.Distances)
	}
	if !reflect.DeepEqual(got, want) || len(found.Problems) > 0 {
		t.Errorf("%v %v", got, found.Problems)
	}
}

// The numbers of distance are in the order of the nodes' numbers, also of those of two digits and with gaps.
func TestDistancesOfNodesWithGaps(t *testing.T) {
	m := superchip()
	for _, file := range []string{"cpulist", "meminfo", "distance"} {
		name := nodeDir + "/node2/" + file
		m[nodeDir+"/node10/"+file] = m[name]
		delete(m, name)
	}
	m[nodeDir+"/node10/distance"] = &fstest.MapFile{Data: []byte("81 121 122 11\n")}
	found := read(t, m)
	last := found.Nodes[len(found.Nodes)-1]
	if want := map[int]int{0: 81, 1: 121, 3: 122, 10: 11}; last.ID != 10 || !reflect.DeepEqual(last.Distances, want) {
		t.Errorf("node %d: %v, want %v", last.ID, last.Distances, want)
	}
}

// Distances that cannot be read are unknown, and affect nothing else.
func TestUnknownDistances(t *testing.T) {
	for text, problem := range map[string]string{
		"80 120 10":      `distance is "80 120 10", which is not one number for each of the 4 nodes`,
		"80 120 10 20 9": `which is not one number for each of the 4 nodes`,
		"80 120 far 20":  `which is not one number for each of the 4 nodes`,
		"":               `which is not one number for each of the 4 nodes`,
		"missing":        "",
	} {
		m := superchip()
		if m[nodeDir+"/node2/distance"] = (&fstest.MapFile{Data: []byte(text)}); text == "missing" {
			delete(m, nodeDir+"/node2/distance")
		}
		found := read(t, m)
		if n := found.Nodes[2]; n.Distances != nil || n.MemoryMB != 1024 || len(found.Nodes[3].Distances) != 4 {
			t.Errorf("%q: %+v", text, found.Nodes)
		}
		if got := fmt.Sprint(found.Problems); !strings.Contains(got, problem) || (problem == "") != (got == "[]") {
			t.Errorf("%q: %s", text, got)
		}
	}
	calls := 0
	found := read(t, faulty{superchip(), map[string]error{"node2/distance": fs.ErrPermission}, &calls})
	if len(found.Problems) != 1 || found.Nodes[2].Distances != nil || found.Nodes[2].MemoryMB != 1024 {
		t.Errorf("%+v %v", found.Nodes, found.Problems)
	}
}

// A capture keeps distances and the ports above devices.
func TestCaptureKeepsPortsAndDistances(t *testing.T) {
	text, err := Capture(superchip())
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, fsys), read(t, superchip()); !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

func TestPortsAboveDevices(t *testing.T) {
	found := read(t, superchip())
	for address, want := range map[string]string{
		"0008:01:00.0":  "0008:00:00.0 [0008:00:00.0]",
		"0018:03:00.0":  "0018:00:00.0 [0018:00:00.0 0018:01:00.0 0018:02:00.0]",
		"10000:e1:00.0": "10000:e0:01.0 [10000:e0:01.0]",
		"0000:00:1f.0":  "0000:00:1f.0 []",
		"0010:01:00.0":  "0010:00:00.0 [0010:00:00.0]",
		"4711:00:02.0":  "4711:00:02.0 []",
	} {
		d := deviceAt(t, found, address)
		if got := fmt.Sprint(d.Root(), " ", d.Bridges); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	// A directory in the list itself does not show what is above it.
	plain := deviceAt(t, read(t, card()), vfAt)
	if pf := (pci.Address{Bus: 0x81}); len(plain.Bridges) > 0 || plain.Root() != pf {
		t.Errorf("%v, root %s", plain.Bridges, plain.Root())
	}
}

package sysfs

import (
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/facts"
)

// nodeMachine returns a machine with two NUMA nodes of four threads on two cores each, on different sockets; the
// second has huge pages.
func nodeMachine() fstest.MapFS {
	m := fstest.MapFS{"bus/pci/devices/0000:00:00.0/vendor": {Data: []byte("0x8086")},
		"bus/pci/devices/0000:00:00.0/device": {Data: []byte("0x0001")},
		"bus/pci/devices/0000:00:00.0/class":  {Data: []byte("0x060000")}}
	put := func(name, text string) { m[name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	put("devices/system/node/node0/cpulist", "0-1,4-5")
	put("devices/system/node/node1/cpulist", "2-3,6-7")
	put("devices/system/node/node0/meminfo", "Node 0 MemTotal:        2097152 kB\nNode 0 MemFree:  1 kB")
	put("devices/system/node/node1/meminfo", "Node 1 MemTotal:        4194304 kB")
	put("devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "512")
	put("devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "1")
	for cpu, of := range []struct{ socket, group string }{{"0", "0,4"}, {"0", "1,5"}, {"1", "2,6"}, {"1", "3,7"},
		{"0", "0,4"}, {"0", "1,5"}, {"1", "2,6"}, {"1", "3,7"}} {
		dir := "devices/system/cpu/cpu" + string(rune('0'+cpu)) + "/topology/"
		put(dir+"physical_package_id", of.socket)
		put(dir+"thread_siblings_list", of.group)
	}
	return m
}

func TestNodes(t *testing.T) {
	want := []facts.Node{
		{ID: 0, CPUs: []int{0, 1, 4, 5}, Socket: 0, Siblings: [][]int{{0, 4}, {1, 5}}, MemoryMB: 2048},
		{ID: 1, CPUs: []int{2, 3, 6, 7}, Socket: 1, Siblings: [][]int{{2, 6}, {3, 7}}, MemoryMB: 4096,
			Pages: []facts.Pages{{SizeKB: 2048, Total: 512}, {SizeKB: 1048576, Total: 1}}},
	}
	m := nodeMachine()
	found, err := Read(m)
	if err != nil || !reflect.DeepEqual(found.Nodes, want) || len(found.Problems) > 0 {
		t.Errorf("%+v %v", found, err)
	}
	text, err := Capture(m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := Read(again); err != nil || !reflect.DeepEqual(found.Nodes, want) {
		t.Errorf("captured: %+v %v", found.Nodes, err)
	}
}

// Missing or contradicting properties are unknown, and affect nothing else.
func TestIncompleteNodes(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		node       facts.Node
		problem    string
	}{
		"CPUs on two sockets": {"devices/system/cpu/cpu4/topology/physical_package_id", "9",
			facts.Node{ID: 0, CPUs: []int{0, 1, 4, 5}, Socket: facts.NoSocket, Siblings: [][]int{{0, 4}, {1, 5}},
				MemoryMB: 2048},
			"on 2 sockets"},
		"an unknown socket": {"devices/system/cpu/cpu0/topology/physical_package_id", "-1",
			facts.Node{ID: 0, CPUs: []int{0, 1, 4, 5}, Socket: facts.NoSocket, Siblings: [][]int{{0, 4}, {1, 5}},
				MemoryMB: 2048},
			"on 2 sockets"},
		"memory is not a number": {"devices/system/node/node0/meminfo", "Node 0 MemTotal: lots kB",
			facts.Node{ID: 0, CPUs: []int{0, 1, 4, 5}, Socket: 0, Siblings: [][]int{{0, 4}, {1, 5}}},
			`MemTotal of meminfo is "lots"`},
		"siblings without the CPU itself": {"devices/system/cpu/cpu1/topology/thread_siblings_list", "5",
			facts.Node{ID: 0, CPUs: []int{0, 1, 4, 5}, Socket: 0, Siblings: [][]int{{0, 4}}, MemoryMB: 2048}, "CPU 1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := nodeMachine()
			m[c.file] = &fstest.MapFile{Data: []byte(c.text)}
			found, err := Read(m)
			if err != nil || len(found.Nodes) != 2 || !reflect.DeepEqual(found.Nodes[0], c.node) {
				t.Fatalf("%+v %v", found.Nodes, err)
			}
			if len(found.Problems) != 1 || !strings.Contains(found.Problems[0].String(), c.problem) {
				t.Errorf("%v", found.Problems)
			}
		})
	}
}

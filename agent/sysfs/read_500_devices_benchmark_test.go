package sysfs

import (
	"fmt"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/pci"
)

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

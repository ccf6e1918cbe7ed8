package bench

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/provider"
)

const (
	nodesOfHost   = 8
	threadsOfNode = 32
	flavorSets    = "sets"
	flavorNowhere = "nowhere"
)

// planned writes one host with eight NUMA nodes, each with 32 threads for dedicated CPUs, and with a GPU and two VFs of
// one NIC below one PCIe root. A guest has some of the threads of a random node, and a random device is in use, so
// that hardly two hosts have the same free. It returns the report of the host's agent.
func (f *fleet) planned(n int) (host.Report, error) {
	rng := rand.New(rand.NewPCG(uint64(n), 1))
	r := host.Report{Host: fmt.Sprintf("cmp-%05d", n), Instance: uuid.NewString(), Start: uuid.NewString(), InPlace: true,
		NodesInPlacement: true, Conditions: []condition.Condition{}}
	root := f.next
	var err error
	if r.Provider, err = f.provider(r.Host, root, nil, "", map[string]int{"MEMORY_MB": 1 << 20, "DISK_GB": 8000}, 0,
		f.common...); err != nil {
		return r, err
	}
	for node := range nodesOfHost {
		if err := f.plannedNode(&r, root, node); err != nil {
			return r, err
		}
	}
	busy := host.PlacedCell{Node: rng.IntN(nodesOfHost), CPUs: map[int]int{}}
	cell := host.GuestCell{MemoryMB: 1024}
	for i := range 1 + rng.IntN(threadsOfNode/2) {
		cell.VCPUs, cell.Dedicated = append(cell.VCPUs, i), append(cell.Dedicated, i)
		busy.CPUs[i] = busy.Node*threadsOfNode + i
	}
	r.Counted = []host.CountedGuest{{ID: uuid.NewString(), Cells: []host.GuestCell{cell},
		Placed: []host.PlacedCell{busy}}}
	r.Devices[rng.IntN(len(r.Devices))].State = "unavailable"
	return r, nil
}

// plannedNode writes a node of a planned host, and its devices.
func (f *fleet) plannedNode(r *host.Report, root int64, node int) error {
	cell := host.Cell{ID: node, Socket: node / 4, CPUs: []int{}, MemoryMB: 1 << 17}
	for i := range threadsOfNode {
		cell.Dedicated = append(cell.Dedicated, node*threadsOfNode+i)
	}
	r.Cells = append(r.Cells, cell)
	r.Nodes = append(r.Nodes, host.Node{ID: node, CPUs: true, Socket: node / 4})
	name := numa.ProviderName(r.Host, node)
	id := provider.IDFromName(provider.ID(r.Provider), name)
	if err := f.providerAs(string(id), name, root, root, "", map[string]int{"PCPU": threadsOfNode,
		string(numa.SmallMemory): cell.MemoryMB}, 0); err != nil {
		return err
	}
	add := func(d host.Device, of string) {
		d.Host, d.NUMANode, d.IOMMUGroup, d.Provider = r.Host, node, -1, of
		d.Bridges, d.Traits, d.State = []string{fmt.Sprintf("0000:%02x:01.0", 16*node)}, []string{}, "available"
		r.Devices = append(r.Devices, d)
	}
	gpu, nic := fmt.Sprintf("0000:%02x:00.0", 16*node+1), fmt.Sprintf("0000:%02x:00.0", 16*node+2)
	managed := f.traits["COMPUTE_MANAGED_PCI_DEVICE"]
	of, err := f.provider(r.Host+"_"+gpu, root, root, "", map[string]int{"CUSTOM_GPU": 1}, 0, managed)
	if err != nil {
		return err
	}
	add(host.Device{Address: gpu, VendorID: "10de", ProductID: "2330", Type: "type-PCI", ResourceClass: "CUSTOM_GPU"}, of)
	of, err = f.provider(r.Host+"_"+nic, root, root, "", map[string]int{"CUSTOM_VF": 2}, 0, managed)
	for vf := range 2 {
		add(host.Device{Address: fmt.Sprintf("0000:%02x:00.%d", 16*node+2, vf+1), VendorID: "15b3", ProductID: "101e",
			Type: "type-VF", Parent: nic, ResourceClass: "CUSTOM_VF"}, of)
	}
	return err
}

// startPlannedFleet starts a fleet of planned hosts. The flavor sets has two guest cells of four dedicated CPUs each,
// and two GPUs, each with a VF below the same root, near these. nowhere has three such sets, and two nodes have two.
func startPlannedFleet(b *testing.B) *computeFleet {
	b.Helper()
	f := startFleetOf(b, *scheduleHosts, []string{"CUSTOM_GPU", "CUSTOM_VF", string(numa.SmallMemory)}, (*fleet).planned)
	const cells = `{"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2", "pci_passthrough:alias": "gpu_nic:%d"}`
	f.createFlavor(b, flavorSets, 8, fmt.Sprintf(cells, 2))
	f.createFlavor(b, flavorNowhere, 8, fmt.Sprintf(cells, 3))
	return f
}

// BenchmarkSchedulePlanned creates servers of the flavor sets with 16 clients; an operation ends when the server's
// allocation is claimed.
func BenchmarkSchedulePlanned(b *testing.B) {
	f := startPlannedFleet(b)
	b.Run(fmt.Sprintf("hosts=%d/flavor=%s", *scheduleHosts, flavorSets), func(b *testing.B) {
		load(b, f.compute, 16, 1, "servers", f.createUntil(flavorSets, isClaimed))
	})
}

// BenchmarkOnePlanned creates 20 servers of the flavor sets a second; an operation ends when the server's allocation is
// claimed.
func BenchmarkOnePlanned(b *testing.B) {
	f := startPlannedFleet(b)
	b.Run(fmt.Sprintf("hosts=%d/flavor=%s", *scheduleHosts, flavorSets), func(b *testing.B) {
		f.createSteadily(b, flavorSets)
	})
}

// BenchmarkRefusePlanned creates servers that fit nowhere with one client; an operation ends when the server is in
// ERROR with the reason.
func BenchmarkRefusePlanned(b *testing.B) {
	f := startPlannedFleet(b)
	b.Run(fmt.Sprintf("hosts=%d/flavor=%s", *scheduleHosts, flavorNowhere), func(b *testing.B) {
		load(b, f.compute, 1, 1, "refusals", f.createAndAsk(flavorNowhere, isRefused, time.Millisecond))
	})
}

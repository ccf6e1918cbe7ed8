package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/pci"
)

// The products of the devices of varied machines that others do not have: cards, and their VFs.
const cardPF, cardVF = "1572", "154c"

// vary gives a machine random nodes, and up to four kinds of devices. It returns the configurations of the devices as
// lists of objects: all of them, the same with a trait more, and without the last kind.
func (m *simHost) vary(rng *rand.Rand, zone int) (specs [usualRules]string) {
	m.varyNodes(rng)
	m.varyCPUs(rng)
	m.texts = map[pci.Address]string{}
	kinds := []func(*rand.Rand, int) []string{m.someGPUs, m.someVFs, m.someCards, m.someDisks}
	rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:1+rng.IntN(len(kinds))]
	for k, kind := range kinds {
		for _, rule := range kind(rng, zone) {
			for i := range specs {
				if i == 2 && k > 0 && k == len(kinds)-1 {
					continue
				}
				traits := "GOOD"
				if i == 1 {
					traits = "GOOD,BETTER"
				}
				specs[i] += fmt.Sprintf(`, {"traits": "%s", %s}`, traits, rule)
			}
		}
	}
	for i := range specs {
		specs[i] = strings.TrimPrefix(specs[i], ", ")
	}
	return specs
}

// varyNodes gives the machine one to four nodes with CPUs, and sometimes one that has only memory.
func (m *simHost) varyNodes(rng *rand.Rand) {
	m.nodes = nil
	count, threads, smt := 1+rng.IntN(4), []int{4, 4, 8}[rng.IntN(3)], rng.IntN(2) == 0
	known := rng.IntN(6) > 0 // sockets
	for id := range count {
		n := facts.Node{ID: id, Socket: id / 2, MemoryMB: 1024 * (2 + rng.IntN(4)), Distances: map[int]int{}}
		if !known {
			n.Socket = facts.NoSocket
		}
		for cpu := range threads {
			n.CPUs = append(n.CPUs, id*threads+cpu)
		}
		if smt {
			for cpu := 0; cpu < threads; cpu += 2 {
				n.Siblings = append(n.Siblings, []int{n.CPUs[cpu], n.CPUs[cpu+1]})
			}
		}
		for _, p := range []facts.Pages{{SizeKB: 2048, Total: 256}, {SizeKB: 1 << 20, Total: 1}} {
			if rng.IntN(2) == 0 {
				n.Pages = append(n.Pages, p)
			}
		}
		for other := range count {
			n.Distances[other] = 12
			switch {
			case other == id:
				n.Distances[other] = 10
			case other/2 != id/2:
				n.Distances[other] = 20
			}
		}
		m.nodes = append(m.nodes, n)
	}
	if rng.IntN(3) == 0 {
		memory := facts.Node{ID: count, Socket: facts.NoSocket, MemoryMB: 1024, Distances: map[int]int{count: 10}}
		for id := range count {
			memory.Distances[id] = 20 + 10*rng.IntN(2)
			m.nodes[id].Distances[count] = memory.Distances[id]
		}
		m.nodes = append(m.nodes, memory)
	}
}

// varyCPUs configures which CPUs guests share and which are dedicated, and how much is overcommitted.
func (m *simHost) varyCPUs(rng *rand.Rand) {
	m.cpus.CPURatio = []float64{0, 1.5, 2}[rng.IntN(3)]
	m.cpus.MemoryRatio = []float64{0, 0, 1.5}[rng.IntN(3)]
	split := rng.IntN(4)
	for _, n := range m.nodes {
		shared := len(n.CPUs) / 2
		if split == 2 && n.ID > 0 {
			shared = 0
		}
		if split > 0 {
			m.cpus.Shared = append(m.cpus.Shared, n.CPUs[:shared]...)
			m.cpus.Dedicated = append(m.cpus.Dedicated, n.CPUs[shared:]...)
		}
	}
}

// add plugs in a device with VFs on a random node, below a random root port, and returns its address.
func (m *simHost) add(rng *rand.Rand, d pci.Device, vf string, vfs int, text string) pci.Address {
	if d.NUMANode = m.nodes[rng.IntN(len(m.nodes))].ID; rng.IntN(8) == 0 {
		d.NUMANode = pci.NoNUMA
	}
	if rng.IntN(4) > 0 {
		d.Bridges = []pci.Address{at(0, 8*(1+rng.IntN(3)))}
	}
	d.TotalVFs, d.NumVFs = vfs, vfs
	m.made, m.texts[d.Address] = append(m.made, d), text
	for v := range vfs {
		parent := d.Address
		of := pci.Device{Address: at(int(d.Address.Bus), 8+v), Vendor: d.Vendor, Product: vf, Type: pci.Virtual,
			Parent: &parent, NUMANode: d.NUMANode, Bridges: d.Bridges}
		m.made, m.texts[of.Address] = append(m.made, of), text
	}
	return d.Address
}

// someGPUs plugs in GPUs of a fabric: each has a value for its pair and one for all.
func (m *simHost) someGPUs(rng *rand.Rand, zone int) (rules []string) {
	flags := []string{"", liveMigratable}[rng.IntN(2)]
	for i := range 2 + rng.IntN(3) {
		text := fmt.Sprintf(`%s"properties": {"fabric": "p2-%d,p4-0"}, `, flags, i/2)
		address := m.add(rng, pci.Device{Address: at(16+i, 0), Vendor: "10de", Product: "1db4", Type: pci.Plain}, "", 0, text)
		rules = append(rules, fmt.Sprintf(`%s"address": "%s", "resource_class": "GPU_%d"`, text, address, zone))
	}
	return rules
}

func (m *simHost) someVFs(rng *rand.Rand, zone int) []string {
	flags := []string{"", liveMigratable}[rng.IntN(2)]
	for i := range 1 + rng.IntN(2) {
		m.add(rng, pci.Device{Address: at(64+i, 0), Vendor: "8086", Product: "1528", Type: pci.Physical}, "1515",
			2+rng.IntN(3), flags)
	}
	return []string{fmt.Sprintf(`%s"vendor_id": "8086", "product_id": "1515", "resource_class": "VF_%d"`, flags, zone)}
}

// someCards plugs in PFs that are offered whole, and mostly also as their VFs.
func (m *simHost) someCards(rng *rand.Rand, zone int) []string {
	for i := range 1 + rng.IntN(2) {
		m.add(rng, pci.Device{Address: at(80+i, 0), Vendor: "8086", Product: cardPF, Type: pci.Physical}, cardVF,
			2+rng.IntN(3), "")
	}
	shapes := ""
	if rng.IntN(3) > 0 {
		shapes, m.bare = `, "shapes": ["pf", "vf"]`, map[pci.Address]bool{}
	}
	return []string{fmt.Sprintf(`"vendor_id": "8086", "product_id": "%s", "resource_class": "PF_%d"%s`, cardPF, zone,
		shapes)}
}

func (m *simHost) someDisks(rng *rand.Rand, zone int) []string {
	flags := []string{"", `"one_time_use": "yes", `}[rng.IntN(2)]
	for i := range 1 + rng.IntN(3) {
		m.add(rng, pci.Device{Address: at(32+i, 0), Vendor: "144d", Product: "a80a", Type: pci.Plain}, "", 0, flags)
	}
	return []string{fmt.Sprintf(`%s"vendor_id": "144d", "product_id": "a80a", "resource_class": "NVME_%d"`, flags, zone)}
}

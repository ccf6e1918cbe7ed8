package schedule_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// thousandHosts returns 1,000 hosts of eight nodes and 24 providers of devices: 8 GPUs, 8 NICs of 8 VFs and 8 disks.
func thousandHosts() map[provider.ID]schedule.Host {
	out, plans := map[provider.ID]schedule.Host{}, memories{}
	for n := range 1000 {
		h := host(fmt.Sprint("h", n))
		for bus := range uint8(8) {
			on := func(kind string) provider.ID { return provider.ID(fmt.Sprint(h.Name, kind, bus)) }
			h.Devices = append(h.Devices, testDevice(bus, pci.Plain, "2330", on("gpu"), int(bus)),
				testDevice(0x40+bus, pci.Plain, "a808", on("nvme"), int(bus)))
			h.Devices = append(h.Devices, card(0x80+bus, on("nic"), int(bus), false, 8)...)
			h.Cells = append(h.Cells, node(int(bus), int(bus)/4, 8))
		}
		for i := range h.Devices {
			h.Devices[i].ResourceClass = pci.ClassFor("8086", h.Devices[i].Product)
		}
		out[h.Provider] = plans.remember(h)
	}
	return out
}

// BenchmarkPlanHosts plans a server on a thousand hosts.
func BenchmarkPlanHosts(b *testing.B) {
	gpu, vf := requestFor(2, pci.Plain, "2330"), requestFor(2, pci.Virtual, "1515")
	gpu.ID, vf.ID = "G", "V"
	one := vf
	one.Count = 1
	many := gpu
	many.Count = 9
	for _, c := range []struct {
		name     string
		cells    int
		requests []pci.Request
		fits     bool
	}{
		{"one VF", 0, []pci.Request{one}, true},
		{"2 cells, 2 GPUs, 2 VFs", 2, []pci.Request{gpu, vf}, true},
		{"nothing fits", 2, []pci.Request{many, vf}, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := schedule.Input{Hosts: thousandHosts(), Now: noon, Silence: schedule.Silence, Counted: map[string]bool{}}
			if c.cells > 0 {
				p.Cells = guest(c.cells)
			}
			for _, r := range c.requests {
				p.Counted[r.ID] = true
			}
			for b.Loop() {
				roots, _, refusals := schedule.PlanHosts(p, c.requests, 1)
				if (len(roots) > 0) != c.fits {
					b.Fatal(len(roots), schedule.Summarise(refusals))
				}
			}
		})
	}
}

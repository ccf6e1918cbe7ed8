package schedule_test

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/numa"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// BenchmarkChoose chooses from a thousand candidates on twenty hosts of eight nodes and 64 devices, for a guest of four
// cells and four devices.
func BenchmarkChoose(b *testing.B) {
	p := schedule.Input{Hosts: map[provider.ID]schedule.Host{}, Cells: guest(4), Now: noon, Silence: schedule.Silence}
	r := withPolicy(pci.Required, requestFor(4, pci.Virtual, "1515"))
	r.ID = "R"
	for n := range 20 {
		h := host(fmt.Sprint("h", n))
		for bus := range 8 {
			h.Devices = append(h.Devices, card(uint8(bus), provider.ID(fmt.Sprint("p", bus)), bus, false, 8)...)
			h.Cells = append(h.Cells, node(bus, bus/4, 8))
		}
		for i := range h.Cells {
			h.Cells[i].Pages = []numa.Pages{{SizeKB: 2048, Total: 512}}
		}
		p.Hosts[h.Provider] = h
		for i := range 50 {
			p.Candidates = append(p.Candidates, candidate(h.Name, provider.ID(fmt.Sprint("p", i%8)),
				provider.ID(fmt.Sprint("p", i/8)), "p1", "p2"))
		}
	}
	for b.Loop() {
		if choices, why := schedule.Choose(p, []pci.Request{r}, 1); len(choices) == 0 {
			b.Fatal(schedule.Summarise(why))
		}
	}
}

package settings

import (
	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/provider"
)

// checkBandwidth adds the providers for bandwidth, and what is wrong with the interfaces that the configuration names.
func (c *CheckReport) checkBandwidth(s Settings, machine facts.Facts) {
	if !s.Bandwidth.Report {
		return
	}
	roots := map[string]provider.ID{} // Placement is not asked: all are taken as present
	for _, a := range s.Bandwidth.Agents {
		for _, d := range a.Providers() {
			roots[d.Name.Hypervisor] = ""
		}
	}
	f := survey.BandwidthFacts{Agents: s.Bandwidth.Agents, Roots: roots, NICs: machine.NICs, NICsRead: machine.NICsRead,
		Devices: machine.Devices}
	for _, finding := range survey.InterfaceFindings(f) {
		level := LevelWarning
		if finding.Wrong {
			level = LevelError
		}
		c.add(level, finding.Sentence)
	}
	for _, d := range survey.Bandwidth(f) {
		one := CheckedProvider{Name: d.Provider.Name, UUID: string(d.Provider.ID), Root: d.Name.Hypervisor,
			Inventories: map[string]int{}, Why: d.Absent}
		for class, inv := range d.Provider.Inventories {
			one.Inventories[string(class)] = inv.Total
		}
		for _, t := range d.Provider.Traits {
			one.Traits = append(one.Traits, string(t))
		}
		c.Bandwidth = append(c.Bandwidth, one)
	}
}

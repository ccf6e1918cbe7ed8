package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/loop"
	"github.com/openberth/berth/agent/reconcile"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/pci"
)

// rescan is the interval of an agent between two syncs, by its clock.
const rescan = 10 * time.Minute

// config is the configuration of the agent of a machine.
func (am *agentModel) config(m *simHost) state.Config {
	known, _ := m.disk.found.Identity()
	first, cpus := known.Instance == "", m.cpus
	cpus.InPlacement = m.nodesInPlacement
	return state.Config{Host: m.name, Dir: m.tag, Rules: m.rules[m.rule], ReportInPlacement: true,
		CPUs:            cpus,
		ReportBandwidth: true, Bandwidth: m.bandwidth(), ReportNetwork: m.portVFs,
		Preparations: state.Preparations{ConfigureVFs: m.portVFs},
		Machine:      state.Machine{ID: m.install, LockID: m.tag},
		Rescan:       rescan, Times: state.Times{Alive: rescan}, Parallel: 3, Jitter: am.rng.Float64,
		NewID: func() string { // of the agent, and then of the root provider
			if !first {
				return string(m.root)
			}
			first = false
			return am.name("i")
		}}
}

// dryRun is `berth agent plan` with the present configuration: it returns the state of an agent that only plans.
func (am *agentModel) dryRun(m *simHost) (*reconcile.State, error) {
	planner, err := reconcile.NewPlan(am.config(m), m.disk.found)
	if err != nil {
		return planner, err
	}
	for events := []state.Event{state.Start{}}; len(events) > 0; events = events[1:] {
		for _, e := range planner.Next(events[0], am.agentTime()) {
			switch e := e.(type) {
			case state.Stop:
				return planner, e.Err
			case state.WriteJournal:
				events = append(events, state.Written{})
			default:
				if event := am.read(m, e, loop.Tree{Host: m.name, Placement: am.placement}); event != nil {
					events = append(events, event)
				}
			}
		}
	}
	return planner, nil
}

// accepts reports whether the agent accepts the configuration.
func (am *agentModel) accepts(m *simHost) bool {
	_, err := am.dryRun(m)
	return err == nil
}

// offerHeld configures a host so that exactly the held devices are offered, each as the class that it was claimed as.
// Held devices of one host may be of several earlier configurations.
func (am *agentModel) offerHeld(m *simHost, held device.Set) {
	var specs []string
	for _, d := range m.made {
		if e, _ := held.At(device.PCI(d.Address)); e.Holder != "" && e.ResourceClass != "" {
			// The address of a PF alone is also that of its VFs.
			text := `{"address": "%s", "product_id": "%s", %s"resource_class": "%s", "traits": "GOOD"}`
			if isPortVF(d) {
				specs = append(specs, fmt.Sprintf(`{"address": "%s", "product_id": "%s", "physical_network": "physnet1"}`,
					d.Address, d.Product))
				continue
			}
			specs = append(specs, fmt.Sprintf(text, d.Address, d.Product, m.flags+m.texts[d.Address], e.ResourceClass))
		}
	}
	rules, err := pci.ParseSpecs("[" + strings.Join(specs, ",") + "]")
	if err != nil {
		am.violation(m, "the simulation's own rules: %v", err)
		return
	}
	m.rules, m.rule = append(m.rules[:usualRules:usualRules], rules), usualRules
	am.note("rules", "", m.tag, fmt.Sprint(specs))
	am.report.Happened["configured as held"]++
}

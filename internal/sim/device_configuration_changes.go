package sim

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// settle changes a configuration back that the agent of the host would not accept at its next start, as one that was
// made while a device was away that is back now.
func (am *agentModel) settle(m *simHost) {
	if am.accepts(m) {
		return
	}
	for range usualRules {
		if m.rule = (m.rule + 1) % usualRules; am.accepts(m) {
			break
		}
	}
	if state, _ := am.dryRun(m); !am.accepts(m) {
		am.offerHeld(m, state.Devices())
	}
	am.crash(m)
	am.start(m)
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
			specs = append(specs, fmt.Sprintf(text, d.Address, d.Product, m.flags, e.ResourceClass))
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

// ruleSome changes the configuration of a host and restarts its agent.
func (op *operations) ruleSome() {
	m := op.some()
	if m.agent == nil || m.cut {
		return
	}
	if m.rule = op.rng.IntN(usualRules); op.rng.IntN(2) == 0 {
		m.rule = 0
	}
	op.note("rules", "", m.tag, m.rules[m.rule][0].String())
	op.agents.crash(m)
	op.agents.start(m)
}

package sim

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// settle changes a configuration back that the agent of the host would not accept at its next start, as one that was
// made while a device was away that is back now.
func (w *World) settle(m *simHost) {
	if w.accepts(m) {
		return
	}
	for range usualRules {
		if m.rule = (m.rule + 1) % usualRules; w.accepts(m) {
			break
		}
	}
	if state, _ := w.dryRun(m); !w.accepts(m) {
		w.offerHeld(m, state.Devices())
	}
	w.crash(m)
	w.start(m)
}

// accepts reports whether the agent accepts the configuration.
func (w *World) accepts(m *simHost) bool {
	_, err := w.dryRun(m)
	return err == nil
}

// offerHeld configures a host so that exactly the held devices are offered, each as the class that it was claimed as.
// Held devices of one host may be of several earlier configurations.
func (w *World) offerHeld(m *simHost, held device.Set) {
	var specs []string
	for _, d := range m.made {
		if e, _ := held.At(device.PCI(d.Address)); e.Holder != "" && e.Class != "" {
			// The address of a PF alone is also that of its VFs.
			text := `{"address": "%s", "product_id": "%s", %s"resource_class": "%s", "traits": "GOOD"}`
			if isPortVF(d) {
				specs = append(specs, fmt.Sprintf(`{"address": "%s", "product_id": "%s", "physical_network": "physnet1"}`,
					d.Address, d.Product))
				continue
			}
			specs = append(specs, fmt.Sprintf(text, d.Address, d.Product, m.flags, e.Class))
		}
	}
	rules, err := pci.ParseSpecs("[" + strings.Join(specs, ",") + "]")
	if err != nil {
		w.violation(m, "the simulation's own rules: %v", err)
		return
	}
	m.rules, m.rule = append(m.rules[:usualRules:usualRules], rules), usualRules
	w.note("rules", "", m.tag, fmt.Sprint(specs))
	w.report.Happened["configured as held"]++
}

// ruleSome changes the configuration of a host and restarts its agent.
func (w *World) ruleSome() {
	m := w.some()
	if m.agent == nil || m.cut {
		return
	}
	if m.rule = w.rng.IntN(usualRules); w.rng.IntN(2) == 0 {
		m.rule = 0
	}
	w.note("rules", "", m.tag, m.rules[m.rule][0].String())
	w.crash(m)
	w.start(m)
}

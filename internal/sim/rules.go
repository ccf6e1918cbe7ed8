package sim

import (
	"fmt"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/pci"
)

// usualRules is how many configurations of a host there are beside the one that fits what is held.
const usualRules = 3

// settle takes a configuration back that the host's guests do not allow: one that was made while a device was away that
// is back now.
func (w *World) settle(m *simHost) {
	if m.agent == nil || !m.agent.restored {
		return
	}
	for range usualRules {
		if m.accepts(w.facts(m)) {
			return
		}
		m.rule = (m.rule + 1) % usualRules
	}
	w.offerHeld(m)
}

// accepts reports whether the agent takes the configuration.
func (m *simHost) accepts(f survey.Facts) bool {
	f.Held = m.agent.set.Claims()
	_, _, err := survey.Desired(f)
	return err == nil
}

// offerHeld configures a host so that exactly those devices are offered that the journal and the hypervisor know to be
// held, each as the class that it was claimed as. Held devices of one host may be of several earlier configurations.
func (w *World) offerHeld(m *simHost) {
	set, err := m.restore(offers(w.facts(m)))
	if err != nil {
		w.violation(m, "restore: %v", err)
		return
	}
	var specs []string
	for _, d := range m.made {
		if e, _ := set.At(device.PCI(d.Address)); e.Holder != "" && e.Class != "" {
			// The address of a PF alone is also that of its VFs.
			text := `{"address": "%s", "product_id": "%s", %s"resource_class": "%s", "traits": "GOOD"}`
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

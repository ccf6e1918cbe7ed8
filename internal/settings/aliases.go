package settings

import (
	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// CheckAliases returns one sentence, with its place, for each [pci] alias that is not valid with [filter_scheduler]
// pci_in_placement = true. The present value of pci_in_placement does not matter.
func (s Settings) CheckAliases() []string {
	if s.cfg == nil {
		return nil
	}
	var out []string
	all := pci.Aliases{}
	for _, e := range s.cfg.All("pci", "alias", config.Name{Group: "DEFAULT", Option: "pci_alias"}) {
		if err := all.Add(e.Value, true); err != nil {
			out = append(out, fault.TextOf(e.Fault("settings.CheckAliases", "%s", fault.TextOf(err))))
		}
	}
	return out
}

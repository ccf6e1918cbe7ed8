package settings

import (
	"errors"
	"log/slog"

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
	for _, e := range s.cfg.All("pci", "alias", formerAlias) {
		if err := all.Add(e.Value, true); err != nil {
			out = append(out, fault.TextOf(e.Fault("%s", fault.TextOf(err))))
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, err := range wrongMembers(s.cfg, all) {
		out = append(out, fault.TextOf(err))
	}
	return out
}

// wrongMembers returns the errors of the aliases whose members are not aliases of devices.
func wrongMembers(cfg *config.Config, all pci.Aliases) (wrong []error) {
	for _, e := range cfg.All("pci", "alias", formerAlias) {
		a, err := pci.ParseAlias(e.Value)
		if err == nil {
			err = all.CheckMembers(a.Name)
		}
		if err != nil {
			wrong = append(wrong, e.Fault("%s", fault.TextOf(err)))
		}
	}
	return wrong
}

// readAliases reads all occurrences of alias. It returns the errors of all wrong ones.
func (s *Settings) readAliases(cfg *config.Config, _ *slog.Logger) error {
	s.Aliases = pci.Aliases{}
	var wrong []error
	for _, e := range cfg.All("pci", "alias", formerAlias) {
		if e.Option != "alias" {
			s.warn(e, "deprecated name; use [pci] alias")
		}
		if err := e.Check(); err != nil {
			wrong = append(wrong, err)
		} else if err := s.Aliases.Add(e.Value, s.PCIInPlacement); err != nil {
			wrong = append(wrong, e.Fault("%s", fault.TextOf(err)))
		}
	}
	if len(wrong) == 0 {
		wrong = wrongMembers(cfg, s.Aliases)
	}
	return errors.Join(wrong...)
}

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
	for _, e := range s.cfg.All("pci", "alias", config.Name{Group: "DEFAULT", Option: "pci_alias"}) {
		if err := all.Add(e.Value, true); err != nil {
			out = append(out, fault.TextOf(e.Fault("%s", fault.TextOf(err))))
		}
	}
	return out
}

// readAliases reads all occurrences of alias. It returns the errors of all wrong ones.
func (s *Settings) readAliases(cfg *config.Config, _ *slog.Logger) (err error) {
	if s.PCIInPlacement, err = cfg.Bool("filter_scheduler", "pci_in_placement", false); err != nil {
		return err
	}
	if s.IgnoredProperties, err = cfg.Strings("berth", "ignored_properties", nil); err != nil {
		return err
	}
	if s.ResizeToSameHost, err = cfg.Bool("DEFAULT", "allow_resize_to_same_host", false); err != nil {
		return err
	}
	s.Aliases = pci.Aliases{}
	var wrong []error
	for _, e := range cfg.All("pci", "alias", config.Name{Group: "DEFAULT", Option: "pci_alias"}) {
		if e.Option != "alias" {
			s.warn(e, "deprecated name; use [pci] alias")
		}
		if err := e.Check(); err != nil {
			wrong = append(wrong, err)
		} else if err := s.Aliases.Add(e.Value, s.PCIInPlacement); err != nil {
			wrong = append(wrong, e.Fault("%s", fault.TextOf(err)))
		}
	}
	return errors.Join(wrong...)
}

package settings

import (
	"log/slog"
	"strings"

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

// AllErrors returns err, an error of Read for the same files, together with all other errors in the files.
func AllErrors(err error, files ...string) error {
	_, faults, readErr := readAll(slog.New(slog.DiscardHandler), files...)
	if readErr != nil || len(faults) < 2 {
		return err
	}
	var sentences []string
	for _, one := range faults {
		sentences = append(sentences, fault.TextOf(one))
	}
	return Combine(fault.Invalid, "settings.AllErrors", sentences)
}

// Combine returns one fault that lists several sentences, one a line.
func Combine(kind fault.Kind, op string, sentences []string) error {
	return fault.New(kind, op, "%d things are in the way:\n  %s", len(sentences), strings.Join(sentences, "\n  "))
}

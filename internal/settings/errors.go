package settings

import (
	"log/slog"
	"strings"

	"github.com/openberth/berth/config"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// CheckAliases are sentences on [pci] alias entries that [filter_scheduler] pci_in_placement = true would not stand, each with its
// place; whatever the option is now.
func (s Settings) CheckAliases() []string {
	if s.cfg == nil {
		return nil
	}
	var out []string
	all := pci.Aliases{}
	for _, e := range s.cfg.All("pci", "alias", config.Name{Group: "DEFAULT", Option: "pci_alias"}) {
		if err := all.Add(e.Value, true); err != nil {
			out = append(out, fault.TextOf(e.Fault("app.CheckAliases", "%s", fault.TextOf(err))))
		}
	}
	return out
}

// EveryFault is err of ReadSettings for the same files, with all else that is wrong in them.
func AllErrors(err error, files ...string) error {
	_, faults, unread := readAll(slog.New(slog.DiscardHandler), files...)
	if unread != nil || len(faults) < 2 {
		return err
	}
	var sentences []string
	for _, one := range faults {
		sentences = append(sentences, fault.TextOf(one))
	}
	return Combine(fault.Invalid, "app.EveryFault", sentences)
}

// together is one fault for several sentences, each on a line of its own.
func Combine(kind fault.Kind, op string, sentences []string) error {
	return fault.New(kind, op, "%d things are in the way:\n  %s", len(sentences), strings.Join(sentences, "\n  "))
}

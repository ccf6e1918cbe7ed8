package cloud

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/openberth/berth/agent/survey"
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
			out = append(out, fault.TextOf(e.Fault("cloud.CheckAliases", "%s", fault.TextOf(err))))
		}
	}
	return out
}

// PreflightAgent prints what an agent would do first if [pci] report_in_placement were on, and changes nothing. A fault says what
// stops it, all at once: Invalid for what device_spec says, Conflict for what is held.
func PreflightAgent(ctx context.Context, s Settings, dir string, roads Roads, log *slog.Logger, out io.Writer, asJSON bool) error {
	s.ReportInPlacement = true
	err := PrintPlan(ctx, s, dir, roads, log, out, asJSON)
	if wrong := survey.Problems(err); len(wrong) > 1 {
		return together(fault.Invalid, "cloud.PreflightAgent", wrong)
	}
	if err != nil || asJSON {
		return err
	}
	_, err = fmt.Fprintf(out, "ready: restart the agent of %s with [pci] report_in_placement = true, which cannot be switched off again\n", s.Host)
	return err
}

// EveryFault is err of ReadSettings for the same files, with all else that is wrong in them.
func EveryFault(err error, files ...string) error {
	_, faults, unread := readAll(slog.New(slog.DiscardHandler), files...)
	if unread != nil || len(faults) < 2 {
		return err
	}
	var sentences []string
	for _, one := range faults {
		sentences = append(sentences, fault.TextOf(one))
	}
	return together(fault.Invalid, "cloud.EveryFault", sentences)
}

// together is one fault for several sentences, each on a line of its own.
func together(kind fault.Kind, op string, sentences []string) error {
	return fault.New(kind, op, "%d things are in the way:\n  %s", len(sentences), strings.Join(sentences, "\n  "))
}

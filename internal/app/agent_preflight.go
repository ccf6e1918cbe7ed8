package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// PreflightAgent prints what an agent would do first if [pci] report_in_placement were on. It changes nothing. It
// returns one fault for everything that prevents it: Invalid for a wrong device_spec, Conflict for a plan that cannot
// be executed.
func PreflightAgent(ctx context.Context, s settings.Settings, dir string, endpoints Endpoints, log *slog.Logger,
	out io.Writer, asJSON bool) error {
	s.ReportInPlacement = true
	s.Bandwidth = settings.BandwidthSettings{} // it does not depend on the switch
	err := PrintPlan(ctx, s, dir, endpoints, log, out, asJSON)
	if wrong := survey.Problems(err); len(wrong) > 1 {
		return settings.Combine(fault.Invalid, wrong)
	}
	if err != nil || asJSON {
		return err
	}
	_, err = fmt.Fprintf(out, "ready: restart the agent of %s with [pci] report_in_placement = true, which cannot be "+
		"switched off again\n", s.Host)
	return err
}

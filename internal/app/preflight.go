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

// PreflightAgent prints what an agent would do first if [pci] report_in_placement were on, and changes nothing. A fault says what
// stops it, all at once: Invalid for what device_spec says, Conflict for what is held.
func PreflightAgent(ctx context.Context, s settings.Settings, dir string, roads Endpoints, log *slog.Logger, out io.Writer, asJSON bool) error {
	s.ReportInPlacement = true
	err := PrintPlan(ctx, s, dir, roads, log, out, asJSON)
	if wrong := survey.Wrong(err); len(wrong) > 1 {
		return settings.Combine(fault.Invalid, "app.PreflightAgent", wrong)
	}
	if err != nil || asJSON {
		return err
	}
	_, err = fmt.Fprintf(out, "ready: restart the agent of %s with [pci] report_in_placement = true, which cannot be switched off again\n", s.Host)
	return err
}

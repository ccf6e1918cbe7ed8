package actions

import (
	"encoding/json"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// crashDump is the action trigger_crash_dump, since 2.17. The history has it once the guest was interrupted.
func crashDump(s *Handlers, c *request.Call, arguments json.RawMessage, found lifecycle.Server) error {
	if !c.Has(compute.CrashDump) {
		return fault.New(fault.Invalid, "There is no such action: trigger_crash_dump; it needs microversion 2.17")
	}
	if !edge.IsNull(arguments) {
		return fault.New(fault.Invalid, "Invalid input for trigger_crash_dump: it must be null")
	}
	if err := s.Consoles.CrashDump(c, found); err != nil {
		return err
	}
	_, err := s.Store.Change(c.R.Context(), found.ID, func(now lifecycle.Server) lifecycle.Server {
		if !now.Ended.IsZero() { // deleted since it was read
			return now
		}
		return now.WithCrashDump(request.Caller(c), s.Now())
	})
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}

package hosts

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/condition"
)

// allocationRoutes returns the paths of the comparison of a host with Placement.
func allocationRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/allocations": {
			http.MethodGet:  request.Guarded(policies.AuditHost, s.hostAllocations),
			http.MethodPost: request.Guarded(policies.HealHost, s.healHost),
		},
	}
}

// hostAllocations is GET /berth/v1/hosts/{host}/allocations: it compares compute's records of a host with Placement.
func (s *Handlers) hostAllocations(c *request.Call) error {
	found, err := s.Audits.HostAudit(c.R.Context(), c.R.PathValue("host"))
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, s.writeAudit(found))
}

// healHost is POST /berth/v1/hosts/{host}/allocations: it adds to Placement what it lacks of the servers on a host, and
// removes the allocations of the named foreign consumers.
func (s *Handlers) healHost(c *request.Call) error {
	var body host.Heal
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	ctx := context.WithoutCancel(c.R.Context()) // room that was made must be removed again
	found, err := s.Audits.HostHeal(ctx, c.R.PathValue("host"), audit.Healing(body))
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, s.writeAudit(found))
}

func (s *Handlers) writeAudit(a audit.Audit) host.Allocations {
	out := host.Allocations{Host: a.Host, Missing: []host.Missing{}, Foreign: []host.Foreign{}}
	out.Conditions = append([]condition.Condition{}, s.Conductor.HostConditions(a.Host)...)
	for _, m := range a.Missing {
		out.Missing = append(out.Missing, host.Missing{Server: m.Server, Name: m.Name, Consumer: m.Consumer,
			Lacks: m.Lacks.ByName(), Refused: m.Refused, Outcome: m.Outcome,
			Healed: m.Healed})
	}
	for _, f := range a.Foreign {
		out.Foreign = append(out.Foreign, host.Foreign{Consumer: f.Consumer, Holds: f.Holds.ByName(), Why: f.Why,
			Unknown: f.Unknown, Since: f.Since, Kept: f.Kept, Outcome: f.Outcome, Removed: f.Removed, Undo: f.Undo})
	}
	return out
}

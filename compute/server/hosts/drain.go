package hosts

import (
	"net/http"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

// drainRoutes returns the paths of the plan of a drain.
func drainRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/drain": {http.MethodGet: request.Guarded(policies.PlanDrain, s.planDrain)},
	}
}

// planDrain is GET /berth/v1/hosts/{host}/drain: where the servers of a host would move if it were drained now.
func (s *Handlers) planDrain(c *request.Call) error {
	name := c.R.PathValue("host")
	plan, err := s.Scheduler.PlanDrain(c.R.Context(), name)
	if err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	kinds := map[lifecycle.Action]string{lifecycle.Live: host.MoveLive, lifecycle.Migrate: host.MoveCold}
	moves := make([]host.PlannedMove, 0, len(plan))
	for _, p := range plan {
		moves = append(moves, host.PlannedMove{Server: p.Server, Name: p.Name, Action: kinds[p.Action], To: p.To,
			Reason: p.Reason, Note: p.Note})
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"moves": moves})
}

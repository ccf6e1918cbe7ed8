package hosts

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// guestRoutes returns the paths of the guests of a host.
func guestRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/guests/{server}": {
			http.MethodPut: s.ByAgents(policies.ReportGuest, s.putGuest),
			http.MethodGet: s.ByAgents(policies.ReadAssignments, s.firstBoot),
		},
	}
}

// putGuest is PUT /berth/v1/hosts/{host}/guests/{server}: the report of a guest. It may be received twice. A late
// report, or one from an agent that does not serve the host, gets 409 and changes nothing. The report is recorded
// even if the agent closes the connection before the response.
func (s *Handlers) putGuest(c *request.Call) error {
	var guest host.Guest
	if err := c.ReadJSON(request.MaxBody, &guest); err != nil {
		return err
	}
	event, err := record.ToGuestEvent(c.R.PathValue("host"), c.R.PathValue("server"), guest)
	if err != nil {
		return err
	}
	if _, err := readSender(host.Sender{Instance: guest.Instance, Start: guest.Start}); err != nil {
		return err
	}
	if guest.Number <= 0 {
		return fault.New(fault.Invalid, "number must be larger than in all earlier reports of this agent; it is %d",
			guest.Number)
	}
	report := lifecycle.Report{Host: c.R.PathValue("host"), Instance: guest.Instance, Number: guest.Number, Event: event}
	ctx, cancel := rest.Patient(c.R.Context())
	defer cancel()
	err = s.Conductor.Guest(ctx, c.R.PathValue("server"), guest.Start, report)
	if late, is := errors.AsType[*presence.Late](err); is {
		c.W.Header().Set(host.Latest, strconv.FormatInt(late.Number, 10))
	}
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}

package hosts

import (
	"net/http"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// differenceRoutes returns the path of the differences that a periodic audit has found.
func differenceRoutes(s *Handlers) request.Routes {
	list := func(c *request.Call) error { return listDifferences(s, c) }
	return request.Routes{
		"/berth/v1/differences": {
			http.MethodGet: request.Guarded(policies.ListDifferences, list),
			http.MethodPut: request.Guarded(policies.ReportDifferences, s.putDifferences),
		},
	}
}

// listDifferences is GET /berth/v1/differences: what the last periodic audit has found, while it is valid.
func listDifferences(s *Handlers, c *request.Call) error {
	found, until := s.Audits.Reported()
	out := host.FoundDifferences{Hosts: map[string]host.HostDifference{}}
	if !until.IsZero() {
		out.ValidSeconds = until.Sub(s.Now()).Seconds()
	}
	for name, d := range found {
		out.Hosts[name] = host.HostDifference(d)
	}
	return c.WriteJSON(http.StatusOK, out)
}

// putDifferences is PUT /berth/v1/differences: what a periodic audit has found on hosts becomes their condition.
func (s *Handlers) putDifferences(c *request.Call) error {
	var body host.FoundDifferences
	if err := c.ReadJSON(request.MaxReport, &body); err != nil {
		return err
	}
	if body.ValidSeconds <= 0 || body.ValidSeconds > host.MaxDifferenceTime.Seconds() {
		return fault.New(fault.Invalid, "valid_seconds is %v; use a number above 0 and at most %v", body.ValidSeconds,
			host.MaxDifferenceTime.Seconds())
	}
	if len(body.Hosts) > host.MaxDifferenceHosts {
		return fault.New(fault.Invalid, "hosts has %d hosts; report at most %d", len(body.Hosts), host.MaxDifferenceHosts)
	}
	found := map[string]audit.Reported{}
	for name, d := range body.Hosts {
		if d.Count < len(d.First) || len(d.First) == 0 || len(d.First) > host.MaxDifferences {
			return fault.New(fault.Invalid, "hosts[%q]: first has %d clauses of %d differences; report 1 to %d", name,
				len(d.First), d.Count, host.MaxDifferences)
		}
		for _, clause := range d.First {
			if len(clause) > host.MaxDifferenceText {
				return fault.New(fault.Invalid, "hosts[%q]: a clause has %d bytes; use at most %d", name, len(clause),
					host.MaxDifferenceText)
			}
		}
		found[name] = audit.Reported(d)
	}
	s.Audits.SetReported(found, s.Now().Add(time.Duration(body.ValidSeconds*float64(time.Second))))
	return c.WriteStatus(http.StatusNoContent)
}

package hosts

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// reportRoutes returns the paths of the reports and signs of life of agents.
func reportRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}": {
			http.MethodGet:    request.Guarded(policies.ListHosts, s.showHost),
			http.MethodPut:    s.ByAgents(policies.ReportHost, s.putReport),
			http.MethodDelete: request.Guarded(policies.ForgetHost, s.forgetHost),
		},
		"/berth/v1/hosts/{host}/alive": {http.MethodPut: s.ByAgents(policies.ReportHost, s.putAlive)},
	}
}

// putReport is PUT /berth/v1/hosts/{host}: the report replaces the previous one completely. It responds with 409 if
// another agent serves the host.
func (s *Handlers) putReport(c *request.Call) error {
	var report host.Report
	if err := c.ReadJSON(request.MaxReport, &report); err != nil {
		return err
	}
	if name := c.R.PathValue("host"); report.Host != name {
		return fault.New(fault.Invalid, "the path names host %q, the report host %q", name, report.Host)
	}
	from, err := readSender(report.Sender())
	if err != nil {
		return err
	}
	known, err := record.FromReport(report)
	if err != nil {
		return err
	}
	if err := s.bind(c, report.Host, from); err != nil {
		return err
	}
	known.Seen = s.Now()
	if known.NotFollowed == "" {
		if known.NotFollowed, err = s.behind(c.R.Context(), report.Host, report.Position); err != nil {
			return err
		}
	}
	if err := s.Agents.Report(c.R.Context(), known, from); err != nil {
		return occupied(c, err)
	}
	s.Agents.Followed(report.Host, report.Position.EpochID, report.Position.Revision)
	s.Audits.HostReported(known)
	if err := s.resolveCleans(c.R.Context(), known, report.Cleaned); err != nil {
		return err
	}
	if err := s.resolveDisabled(c.R.Context(), known, report.EnabledDevices); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}

// putAlive is PUT /berth/v1/hosts/{host}/alive: a sign of life of the agent, and the newest assignments that it has
// followed. It responds with 409 if another agent serves the host, and with 404 if the report must be sent first.
func (s *Handlers) putAlive(c *request.Call) error {
	var alive host.Alive
	if err := c.ReadJSON(request.MaxBody, &alive); err != nil {
		return err
	}
	from, err := readSender(alive.Sender())
	if err != nil {
		return err
	}
	name := c.R.PathValue("host")
	if size := alive.ImageCache; size != nil && (size.Bytes < 0 || size.Limit < 0) {
		return fault.New(fault.Invalid, "image_cache is not valid: bytes is %d and limit %d; numbers from 0 on are expected",
			size.Bytes, size.Limit)
	}
	if alive.Failed != "" {
		return s.startFailed(c, name, from, alive.Failed)
	}
	if err := s.Agents.Alive(c.R.Context(), name, from); err != nil {
		return err
	}
	s.Agents.Followed(name, alive.Position.EpochID, alive.Position.Revision)
	s.Agents.SetImageCache(name, alive.ImageCache)
	return c.WriteStatus(http.StatusNoContent)
}

// startFailed records why a start of an agent cannot report its host yet.
func (s *Handlers) startFailed(c *request.Call, name string, from schedule.Sender, why string) error {
	if err := s.bind(c, name, from); err != nil {
		return err
	}
	if err := s.Agents.StartFailed(c.R.Context(), name, from, why); err != nil {
		return occupied(c, err)
	}
	return c.WriteStatus(http.StatusNoContent)
}

// behind returns why the agent of a host does not follow the assignments: it has followed newer ones than the database
// has. It is empty if the database has what the agent has followed.
func (s *Handlers) behind(ctx context.Context, name string, p host.Position) (string, error) {
	if p == (host.Position{}) {
		return "", nil
	}
	now, err := s.Assigned.Position(ctx, name)
	if err != nil {
		return "", err
	}
	line := host.Assignments{Position: writePosition(now)}
	if line.Past, err = s.past(ctx, name, p, now); err != nil {
		return "", err
	}
	return p.Accept(line), nil
}

// past returns what the database records of the epoch of p; nil when that is the present one or unknown.
func (s *Handlers) past(ctx context.Context, name string, p host.Position, now store.Position) (*host.Position, error) {
	epoch := store.Epoch{Number: p.Epoch, ID: p.EpochID}
	if p.Epoch == 0 || epoch == now.Epoch {
		return nil, nil
	}
	revision, known, err := s.Assigned.EpochEnd(ctx, name, epoch)
	if err != nil || !known {
		return nil, err
	}
	return &host.Position{Epoch: p.Epoch, EpochID: p.EpochID, Revision: revision}, nil
}

func writePosition(p store.Position) host.Position {
	return host.Position{Epoch: p.Epoch.Number, EpochID: p.Epoch.ID, Revision: p.Revision}
}

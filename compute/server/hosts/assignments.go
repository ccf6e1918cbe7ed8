package hosts

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
)

// assignmentRoutes returns the paths of assignments.
func assignmentRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/assignments": {http.MethodGet: s.ByAgents(policies.ReadAssignments, s.watch)},
	}
}

// watch is GET /berth/v1/hosts/{host}/assignments?since=R: a stream of the assignments of a host, one line at each
// change, and again after each Heartbeat of silence. The first line is sent at once unless R is the present revision.
// It responds with 409 to an agent while another one serves the host. The stream has no time limit. It ends when the
// client disconnects, at shutdown, and when the database does not answer; then the agent reconnects.
func (s *Handlers) watch(c *request.Call) error {
	name := c.R.PathValue("host")
	want, err := host.ReadWatchRequest(name, c.R.URL.Query())
	if err != nil {
		return err
	}
	closed, err := s.admitStream(c, want)
	if err != nil {
		return err
	}
	defer closed()
	ctx := rest.Unlimited(c.R.Context())
	changed, stop := s.Assigned.Subscribe(name) // before reading, so that no change is missed
	defer stop()
	now, err := s.Assigned.Assignments(c.R.Context(), name)
	if err != nil {
		return err
	}
	past, err := s.past(c.R.Context(), name, want.Position, store.Position{Epoch: now.Epoch})
	if err != nil {
		return err
	}
	lines := request.NewLines(c)
	lines.Check = s.Lease // without it the assignments may be out of date
	if err := lines.Flush(); err != nil || c.R.Method == http.MethodHead {
		return nil // the client has disconnected, or the request is a HEAD request
	}
	consoles, unwatch := s.Consoles.Watch(name)
	defer unwatch()
	out := &assignmentStream{server: s, host: name, lines: lines, past: past, changes: want.Changes}
	beat := time.NewTimer(s.Heartbeat)
	defer beat.Stop()
	for due := !isCurrent(want, now); ; due = true {
		if due {
			if err := out.write(now); err != nil {
				return nil
			}
			beat.Reset(s.Heartbeat)
		}
		for repeat := false; !repeat; {
			select {
			case <-ctx.Done():
				return nil
			case <-s.Stop:
				return nil
			case <-beat.C:
				repeat = true
			case <-consoles:
				repeat = true
			case <-changed:
			}
			next, err := s.newer(ctx, name, now, repeat)
			if err == nil {
				err = s.checkStream(ctx, want, c.Who.User)
			}
			if err != nil {
				s.Log.Warn("stream of assignments ended", "host", name, "error", err)
				return nil
			}
			repeat = repeat || next.Revision != now.Revision
			now = next
		}
	}
}

// checkStream returns why an open stream must end: an operator has bound the host to another account, or another start
// of the agent has been admitted since, as after a silence of this one.
func (s *Handlers) checkStream(ctx context.Context, w host.WatchRequest, user string) error {
	if err := s.CheckAccount(ctx, w.Host, user); err != nil || w.Sender.Instance == "" {
		return err
	}
	return s.Agents.Admit(ctx, w.Host, schedule.Sender(w.Sender))
}

// newer returns the assignments of a host after a heartbeat or a notified change. At a heartbeat it reads them only if
// their revision is not that of now: thousands of idle streams have one each few seconds.
func (s *Handlers) newer(ctx context.Context, name string, now store.Assignments, heartbeat bool) (store.Assignments,
	error) {
	if heartbeat {
		if at, err := s.Assigned.Position(ctx, name); err != nil || at.Revision == now.Revision {
			return now, err
		}
	}
	return s.Assigned.Assignments(ctx, name)
}

// isCurrent reports whether the client has the present line already. A client without a line gets the first one at
// once, also for a host that never had a server.
func isCurrent(w host.WatchRequest, now store.Assignments) bool {
	return w.Since > 0 && w.Since == now.Revision &&
		w.Position.Epoch == now.Epoch.Number && w.Position.EpochID == now.Epoch.ID
}

// admitStream admits the agent that opens a stream. A client without an instance is not an agent, and needs no
// admission.
func (s *Handlers) admitStream(c *request.Call, w host.WatchRequest) (closed func(), err error) {
	if w.Sender.Instance == "" {
		return func() {}, nil
	}
	from, err := readSender(w.Sender)
	if err != nil {
		return nil, err
	}
	if err := s.Agents.Admit(c.R.Context(), w.Host, from); err != nil {
		return nil, occupied(c, err)
	}
	if err := s.bind(c, w.Host, from); err != nil {
		return nil, err
	}
	return s.Agents.Connected(w.Host), nil
}

// assignmentStream is one open stream.
type assignmentStream struct {
	server  *Handlers
	host    string
	lines   request.Lines
	past    *host.Position
	changes bool // the client accepts differences

	base int64                   // revision of the last line; 0: none was written
	sent map[string]entryVersion // the servers of the last line, by id
}

// entryVersion identifies the version of a server in a line. An entry follows from the record of its server alone.
type entryVersion struct {
	revision int64
	updated  time.Time
}

// write writes a line: the whole assignments, or what differs from the last line.
func (a *assignmentStream) write(now store.Assignments) error {
	line := host.Assignments{Cloud: now.Cloud, Past: a.past,
		Position: writePosition(store.Position{Epoch: now.Epoch, Revision: now.Revision}),
		Servers:  []host.Server{}, Clean: writeCleanRequests(now.CleanRequests),
		Consoles: a.server.Consoles.List(a.host)}
	line.DisabledDevices, line.EnableDevices = writeDisabledRequests(now.Devices, a.server.Now())
	for _, r := range now.Removals {
		line.Remove = append(line.Remove, host.Removal{ID: r.Consumer, PreviousID: r.PreviousConsumer})
	}
	if a.changes {
		line.Base = a.base
	}
	sent := make(map[string]entryVersion, len(now.Entries))
	for _, e := range now.Entries {
		version := entryVersion{e.Server.Revision, e.Server.Updated}
		sent[e.Consumer] = version
		if line.Base == 0 || a.sent[e.Consumer] != version {
			line.Servers = append(line.Servers, record.ToAssignment(e.Entry, e.Server))
		}
	}
	if line.Base != 0 {
		for id := range a.sent {
			if _, stays := sent[id]; !stays {
				line.Left = append(line.Left, id)
			}
		}
		slices.Sort(line.Left)
	}
	a.base, a.sent = now.Revision, sent
	return a.lines.Write(line)
}

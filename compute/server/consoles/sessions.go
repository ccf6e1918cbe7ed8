package consoles

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// sessionRoutes returns the paths of interactive consoles, for users and for agents.
func sessionRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/servers/{id}/console": {http.MethodPost: s.OfServer(policies.CreateConsole, s.openConsole)},
		"/berth/v1/servers/{id}/console/{session}": {
			http.MethodPost: s.OfServer(policies.CreateConsole, s.typeConsole),
		},
		"/berth/v1/hosts/{host}/consoles/{id}/input": {
			http.MethodGet: s.ByAgents(policies.ReportGuest, s.consoleInput),
		},
		"/berth/v1/hosts/{host}/consoles/{id}/output": {
			http.MethodPost: s.ByAgents(policies.ReportGuest, s.postConsole),
		},
	}
}

// openConsole is POST /berth/v1/servers/{id}/console: it opens the serial console of a guest and responds with a stream
// of what the guest prints, in lines of JSON. The first line has the session, for typeConsole.
func (s *Handlers) openConsole(c *request.Call, found lifecycle.Server) error {
	id, session, closed, err := s.open(c.R.Context(), found, false)
	if err != nil {
		return err
	}
	defer closed()
	s.Log.Info("console opened", "server", found.ID, "host", found.Host, "user", c.Who.User, "project", c.Who.Project)
	err = s.streamConsole(c, id, session)
	session.end("the user has closed the console")
	s.Log.Info("console closed", "server", found.ID, "user", c.Who.User, "reason", session.why)
	return err
}

// open opens the serial console of a guest, or with vnc its display, and returns the session when the agent has
// attached. closed must be called when the user has ended it.
func (s *Handlers) open(ctx context.Context, found lifecycle.Server, vnc bool) (id string, session *consoleSession,
	closed func(), err error) {
	if found.Host == "" {
		return "", nil, nil, fault.New(fault.Conflict, "Instance %s is not ready", found.ID)
	}
	session = &consoleSession{server: found.ID, project: found.Project, ready: make(chan struct{}),
		input: make(chan []byte), output: make(chan []byte), ended: make(chan struct{})}
	one := &openConsole{session: session, answer: make(chan host.ConsoleOutput, 1),
		request: host.ConsoleRequest{ID: uuid.NewString(), Guest: found.ID, Interactive: true, VNC: vnc}}
	remove, err := s.Requests.add(found.Host, one)
	if err != nil {
		return "", nil, nil, err
	}
	closed = func() {
		session.end("the user has closed the console")
		remove()
	}
	ctx, cancel := context.WithTimeout(ctx, consoleWait)
	defer cancel()
	select {
	case <-ctx.Done():
		s.Log.Warn("console not opened by the agent", "host", found.Host, "server", found.ID)
		err = fault.New(fault.Unavailable, "the agent of the server's host has not opened the console; repeat the "+
			"request, or ask an administrator whether the host is up")
	case out := <-one.answer:
		if out.Refused == "" {
			out.Refused = "the agent of the server's host has no interactive consoles; update it"
		}
		err = fault.New(fault.Conflict, "the console cannot be opened: %s", out.Refused)
	case <-session.ready:
		return one.request.ID, session, closed, nil
	}
	closed()
	return "", nil, nil, err
}

// streamConsole sends what the guest prints to the user, until the session ends. A user who has disconnected is not an
// error.
func (s *Handlers) streamConsole(c *request.Call, id string, session *consoleSession) error {
	out := request.NewLines(c)
	if out.Write(compute.ConsoleLine{Session: id}) != nil {
		return nil
	}
	beat := time.NewTicker(s.Heartbeat)
	defer beat.Stop()
	ctx := rest.Unlimited(c.R.Context())
	for {
		var line compute.ConsoleLine
		select {
		case <-ctx.Done():
			return nil
		case <-s.Stop:
			session.end("compute ends")
			continue
		case <-session.ended:
			_ = out.Write(compute.ConsoleLine{Closed: session.why}) // the user may have disconnected
			return nil
		case line.Data = <-session.output:
		case <-beat.C:
		}
		if out.Write(line) != nil {
			return nil
		}
	}
}

// typeConsole is POST /berth/v1/servers/{id}/console/{session}: what the user types. It responds when the agent has
// received it.
func (s *Handlers) typeConsole(c *request.Call, found lifecycle.Server) error {
	var in compute.ConsoleLine
	if err := c.ReadJSON(2*host.MaxConsoleData, &in); err != nil {
		return err
	}
	session, err := s.Requests.session(found.Host, c.R.PathValue("session"))
	if err != nil {
		return err
	}
	if session.server != found.ID {
		return errEnded()
	}
	return pass(c, session.input, session.ended, in.Data)
}

// pass sends data of a request to the other side of a session, and responds.
func pass(c *request.Call, to chan<- []byte, ended <-chan struct{}, data []byte) error {
	if len(data) > 0 {
		select {
		case to <- data:
		case <-ended:
			return errEnded()
		case <-c.R.Context().Done():
			return fault.New(fault.Unavailable, "the other side of the console does not read")
		}
	}
	return c.WriteStatus(http.StatusNoContent)
}

// consoleInput is GET /berth/v1/hosts/{host}/consoles/{id}/input: an agent attaches to a session and receives what the
// user types. The session ends with this stream.
func (s *Handlers) consoleInput(c *request.Call) error {
	name := c.R.PathValue("host")
	session, err := s.Requests.attach(name, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	defer session.end("the agent of the server's host has disconnected; open the console again")
	out := request.NewLines(c)
	beat := time.NewTicker(s.Heartbeat)
	defer beat.Stop()
	ctx := rest.Unlimited(c.R.Context())
	for line := (host.ConsoleData{}); ; {
		if out.Write(line) != nil {
			return nil
		}
		line = host.ConsoleData{}
		select {
		case <-ctx.Done():
			return nil
		case <-session.ended:
			_ = out.Write(host.ConsoleData{Closed: session.why}) // the agent may have disconnected
			return nil
		case line.Data = <-session.input:
		case <-beat.C:
		}
	}
}

// postConsole is POST /berth/v1/hosts/{host}/consoles/{id}/output: what a guest has printed, or that its console has
// ended.
func (s *Handlers) postConsole(c *request.Call) error {
	var in host.ConsoleData
	if err := c.ReadJSON(2*host.MaxConsoleData, &in); err != nil {
		return err
	}
	session, err := s.Requests.session(c.R.PathValue("host"), c.R.PathValue("id"))
	if err != nil {
		return err
	}
	if in.Closed != "" {
		session.end(in.Closed)
	}
	return pass(c, session.output, session.ended, in.Data)
}

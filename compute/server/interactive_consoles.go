package server

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
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
func (s *server) sessionRoutes() request.Routes {
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

// consoleSession is an open interactive console: a user's stream coupled with an agent's. It is not stored: it ends
// with one of both streams.
type consoleSession struct {
	server   string
	attached bool // guarded by consoles.mu: an agent has attached; another one is refused
	ready    chan struct{}
	input    chan []byte // to the guest
	output   chan []byte // to the user
	ended    chan struct{}
	once     sync.Once
	why      string // why it has ended, after ended is closed
}

// end ends the session for a reason, unless it has ended.
func (s *consoleSession) end(why string) {
	s.once.Do(func() {
		s.why = why
		close(s.ended)
	})
}

// errEnded returns the fault of a session that has ended.
func errEnded() error {
	return fault.New(fault.NotFound, "the console is not open any more; open it again")
}

// session returns an open session of a host, for its agent.
func (c *consoles) session(name, id string) (*consoleSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.open[name][id]; one != nil && one.session != nil {
		return one.session, nil
	}
	return nil, errEnded()
}

// attach returns a session for the only agent that may attach to it.
func (c *consoles) attach(name, id string) (*consoleSession, error) {
	s, err := c.session(name, id)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.attached {
		return nil, fault.New(fault.Conflict, "an agent is attached to the console already")
	}
	s.attached = true
	close(s.ready)
	return s, nil
}

// openConsole is POST /berth/v1/servers/{id}/console: it opens the serial console of a guest and responds with a stream
// of what the guest prints, in lines of JSON. The first line has the session, for typeConsole.
func (s *server) openConsole(c *request.Call, found lifecycle.Server) error {
	if found.Host == "" {
		return fault.New(fault.Conflict, "Instance %s is not ready", found.ID)
	}
	session := &consoleSession{server: found.ID, ready: make(chan struct{}), input: make(chan []byte),
		output: make(chan []byte), ended: make(chan struct{})}
	one := &openConsole{session: session, answer: make(chan host.ConsoleOutput, 1),
		request: host.ConsoleRequest{ID: uuid.NewString(), Guest: found.ID, Interactive: true}}
	defer s.consoles.add(found.Host, one)()
	defer session.end("the user has closed the console")
	ctx, cancel := context.WithTimeout(c.R.Context(), consoleWait)
	defer cancel()
	select {
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "the agent of host %s has not opened the console of the server; check "+
			"that the host is up", found.Host)
	case out := <-one.answer:
		if out.Refused == "" {
			out.Refused = "the agent of host " + found.Host + " has no interactive consoles; update it"
		}
		return fault.New(fault.Conflict, "the console cannot be opened: %s", out.Refused)
	case <-session.ready:
	}
	s.Log.Info("console opened", "server", found.ID, "host", found.Host, "user", c.Who.User, "project", c.Who.Project)
	err := s.streamConsole(c, one.request.ID, session)
	session.end("the user has closed the console")
	s.Log.Info("console closed", "server", found.ID, "user", c.Who.User, "reason", session.why)
	return err
}

// streamConsole sends what the guest prints to the user, until the session ends. A user who has disconnected is not an
// error.
func (s *server) streamConsole(c *request.Call, id string, session *consoleSession) error {
	out := newLineStream(c)
	if out.write(compute.ConsoleLine{Session: id}) != nil {
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
			_ = out.write(compute.ConsoleLine{Closed: session.why}) // the user may have disconnected
			return nil
		case line.Data = <-session.output:
		case <-beat.C:
		}
		if out.write(line) != nil {
			return nil
		}
	}
}

// typeConsole is POST /berth/v1/servers/{id}/console/{session}: what the user types. It responds when the agent has
// received it.
func (s *server) typeConsole(c *request.Call, found lifecycle.Server) error {
	var in compute.ConsoleLine
	if err := c.Read(2*host.MaxConsoleData, &in); err != nil {
		return err
	}
	session, err := s.consoles.session(found.Host, c.R.PathValue("session"))
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
func (s *server) consoleInput(c *request.Call) error {
	name := c.R.PathValue("host")
	session, err := s.consoles.attach(name, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	defer session.end("the agent of host " + name + " has disconnected; open the console again")
	out := newLineStream(c)
	beat := time.NewTicker(s.Heartbeat)
	defer beat.Stop()
	ctx := rest.Unlimited(c.R.Context())
	for line := (host.ConsoleData{}); ; {
		if out.write(line) != nil {
			return nil
		}
		line = host.ConsoleData{}
		select {
		case <-ctx.Done():
			return nil
		case <-session.ended:
			_ = out.write(host.ConsoleData{Closed: session.why}) // the agent may have disconnected
			return nil
		case line.Data = <-session.input:
		case <-beat.C:
		}
	}
}

// postConsole is POST /berth/v1/hosts/{host}/consoles/{id}/output: what a guest has printed, or that its console has
// ended.
func (s *server) postConsole(c *request.Call) error {
	var in host.ConsoleData
	if err := c.Read(2*host.MaxConsoleData, &in); err != nil {
		return err
	}
	session, err := s.consoles.session(c.R.PathValue("host"), c.R.PathValue("id"))
	if err != nil {
		return err
	}
	if in.Closed != "" {
		session.end(in.Closed)
	}
	return pass(c, session.output, session.ended, in.Data)
}

// lineStream is a response of lines of JSON without an end.
type lineStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newLineStream(c *request.Call) lineStream {
	c.W.Header().Set("Content-Type", "application/x-ndjson")
	c.W.WriteHeader(http.StatusOK)
	return lineStream{c.W, http.NewResponseController(c.W)}
}

// write sends one line.
func (l lineStream) write(line any) error {
	data, err := json.Marshal(line)
	if err != nil {
		return err
	}
	// The server's write timeout is for responses that end. A transport without deadlines returns an error, which is
	// ignored.
	_ = l.control.SetWriteDeadline(time.Now().Add(3 * host.Heartbeat))
	if _, err := l.w.Write(append(data, '\n')); err != nil {
		return err
	}
	return l.control.Flush()
}

package consoles

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// Requests are the open requests for consoles. They are not stored: the caller waits, and this process has the streams
// of all agents.
type Requests struct {
	mu       sync.Mutex
	open     map[string]map[string]*openConsole    // by host and id
	watchers map[string]map[chan struct{}]struct{} // streams, by host
}

type openConsole struct {
	request host.ConsoleRequest
	answer  chan host.ConsoleOutput
	session *consoleSession // nil: not interactive
}

// The most requests that may be open: of one server, and sessions of the servers of one project.
const (
	maxServerRequests  = 20
	maxProjectSessions = 100
)

// request opens a request about a guest, and sets its id. close must be called when its caller stops waiting. It
// returns fault.Forbidden if there are too many.
func (r *Requests) request(name string, of host.ConsoleRequest) (answer <-chan host.ConsoleOutput, closed func(),
	err error) {
	of.ID = uuid.NewString()
	one := &openConsole{request: of, answer: make(chan host.ConsoleOutput, 1)}
	closed, err = r.add(name, one)
	return one.answer, closed, err
}

// check returns fault.Forbidden if a server has the most open requests, or its project the most sessions.
func (r *Requests) check(of *openConsole) error {
	ofServer, ofProject := 0, 0
	for _, all := range r.open {
		for _, one := range all {
			if one.request.Guest == of.request.Guest {
				ofServer++
			}
			if of.session != nil && one.session != nil && one.session.project == of.session.project {
				ofProject++
			}
		}
	}
	if ofServer >= maxServerRequests || ofProject >= maxProjectSessions {
		return fault.New(fault.Forbidden, "Too many consoles of instance %s or its project are open (%d of %d, %d of %d); "+
			"close one", of.request.Guest, ofServer, maxServerRequests, ofProject, maxProjectSessions)
	}
	return nil
}

// add adds a request and notifies the streams of the host. The returned function removes it. It returns fault.Forbidden
// if there are too many.
func (r *Requests) add(name string, one *openConsole) (remove func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.check(one); err != nil {
		return nil, err
	}
	if r.open == nil {
		r.open = map[string]map[string]*openConsole{}
	}
	if r.open[name] == nil {
		r.open[name] = map[string]*openConsole{}
	}
	r.open[name][one.request.ID] = one
	for watcher := range r.watchers[name] {
		select {
		case watcher <- struct{}{}:
		default:
		}
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open[name], one.request.ID)
		if len(r.open[name]) == 0 {
			delete(r.open, name)
		}
	}, nil
}

// Watch returns a channel that receives a value when a request for a host was opened.
func (r *Requests) Watch(name string) (opened <-chan struct{}, stop func()) {
	watcher := make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watchers == nil {
		r.watchers = map[string]map[chan struct{}]struct{}{}
	}
	if r.watchers[name] == nil {
		r.watchers[name] = map[chan struct{}]struct{}{}
	}
	r.watchers[name][watcher] = struct{}{}
	return watcher, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers[name], watcher)
		if len(r.watchers[name]) == 0 {
			delete(r.watchers, name)
		}
	}
}

// List returns the open requests of a host.
func (r *Requests) List(name string) (out []host.ConsoleRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.open[name])) {
		if one := r.open[name][id]; one.session == nil || !one.session.attached {
			out = append(out, one.request)
		}
	}
	return out
}

// resolve passes an answer to its caller and reports whether one waits.
func (r *Requests) resolve(name, id string, out host.ConsoleOutput) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.open[name][id]
	if one == nil {
		return false
	}
	delete(r.open[name], id)
	one.answer <- out
	return true
}

// session returns an open session of a host, for its agent.
func (r *Requests) session(name, id string) (*consoleSession, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.open[name][id]; one != nil && one.session != nil {
		return one.session, nil
	}
	return nil, errEnded()
}

// attach returns a session for the only agent that may attach to it.
func (r *Requests) attach(name, id string) (*consoleSession, error) {
	s, err := r.session(name, id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.attached {
		return nil, fault.New(fault.Conflict, "an agent is attached to the console already")
	}
	s.attached = true
	close(s.ready)
	return s, nil
}

// consoleSession is an open interactive console: a user's stream coupled with an agent's. It is not stored: it ends
// with one of both streams.
type consoleSession struct {
	server   string
	project  string // of the server
	attached bool   // guarded by Requests.mu: an agent has attached; another one is refused
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

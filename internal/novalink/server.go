// Package novalink is a fake of the management REST API of PowerVM NovaLink, for tests and simulations.
//
// It is an http.Handler with state: managed systems with their I/O slots, partitions that have slots, jobs, sessions
// and ETags. A test injects faults, and changes systems while clients use them. Like the real service it rejects
// elements in a wrong order, assigns a slot to one partition only, and frees the slots of a deleted partition.
package novalink

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Server is a fake NovaLink. The zero value is not usable; New returns one.
type Server struct {
	mu          sync.Mutex
	options     Options
	systems     []*System
	jobs        map[string]*job
	sessions    map[string]bool
	faults      []*Fault
	log         []string
	late        []func()      // requests that are performed later
	ended       chan struct{} // closed when faults end
	lastToken   int
	lastJob     int
	lastRequest int
}

// Options are the options of a fake.
type Options struct {
	User, Password string // of logons with a password; an empty password refuses them
	TokenDir       string // of session files; "" refuses logons by file
	Recorded       []byte // is served as the feed of systems, instead of the systems of the fake
	HMC            bool   // answers like an HMC: without X-MC-Type
	Starting       bool   // the service starts: its web server answers 404 to everything
	JobPolls       int    // how often a job is reported as running
	CancelPolls    int    // how often a cancelled job is reported as running
	// JobEnd is the final status of jobs; "" is COMPLETED_OK, and RUNNING means that no job ends.
	JobEnd string
}

// Fault makes requests fail.
type Fault struct {
	Method, Path string // the request's method, and a part of its path; empty: all
	Skip         int    // requests that match and do not fail yet
	Times        int    // requests that fail; 0: one
	Status       int    // of the answer; 0: the connection is closed without an answer
	Reason       string // ReasonCode
	Message      string
	Plain        bool // the body is not an error entry
	NoBody       bool // the answer has a status and no body
	After        bool // the request is performed, and only its answer is lost
	Late         bool // the answer is lost, and the request is performed by the next call of PerformLate
	Hang         bool // the answer does not come until the client gives up or EndFaults
	// Do is called when the fault occurs, while no other request is served. It must not call the Server.
	Do func()
}

// New returns a fake with these systems.
func New(o Options, systems ...*System) *Server {
	return &Server{options: o, systems: systems, jobs: map[string]*job{}, sessions: map[string]bool{},
		ended: make(chan struct{})}
}

// Inject adds a fault.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	s.faults = append(s.faults, &f)
}

// EndFaults removes the faults that have not occurred, and breaks the connections of requests that hang.
func (s *Server) EndFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
	close(s.ended)
	s.ended = make(chan struct{})
}

// Change runs a function that may change systems and options while no request is served. Systems that it changes need
// Touch, or their ETags stay.
func (s *Server) Change(change func(o *Options, systems []*System)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.options, s.systems)
}

// EndSessions invalidates all sessions.
func (s *Server) EndSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// Sessions returns the number of sessions that have not ended.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// PerformLate performs the requests of faults with Late, in their order.
func (s *Server) PerformLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, perform := range s.late {
		perform()
	}
	s.late = nil
}

// Requests returns the requests since the last call, each as method, path and status, such as
// "GET /uom/ManagedSystem 200".
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.log
	s.log = nil
	return out
}

// reply is an answer before it is written.
type reply struct {
	status int
	etag   string
	body   *element // nil: no body
	raw    []byte   // instead of body
}

// refuse returns an error entry.
func refuse(status int, reason, format string, args ...any) reply {
	message := fmt.Sprintf(format, args...)
	return reply{status: status, body: entryOf("", "", web("HttpErrorResponse", web("HTTPStatus").text(fmt.Sprint(status)),
		web("ReasonCode").text(reason), web("Message").text(message)))}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := readBody(r)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path, ok := strings.CutPrefix(r.URL.Path, "/rest/api")
	fault := s.nextFault(r.Method, path)
	if fault != nil && fault.Hang {
		ended := s.ended
		s.mu.Unlock()
		select {
		case <-r.Context().Done():
		case <-ended:
		}
		s.mu.Lock()
		panic(http.ErrAbortHandler)
	}
	if fault != nil && fault.Late {
		s.late = append(s.late, func() { s.route(r, path, body) })
	}
	var answer reply
	switch {
	case fault != nil && !fault.After:
		answer = fault.reply()
	case s.options.Starting:
		answer = reply{status: http.StatusNotFound, raw: []byte("<html>Not Found</html>")}
	case !ok:
		answer = refuse(http.StatusNotFound, "", "no such resource")
	case path == "/web/Logon":
		answer = s.logon(r, body)
	case !s.sessions[r.Header.Get("X-API-Session")]:
		answer = refuse(http.StatusUnauthorized, "", "the session is not valid")
	default:
		answer = s.route(r, path, body)
	}
	if fault != nil && fault.After {
		answer = fault.reply()
	}
	s.log = append(s.log, fmt.Sprintf("%s %s %d", r.Method, path, answer.status))
	if answer.status == 0 {
		panic(http.ErrAbortHandler)
	}
	if !s.options.HMC {
		w.Header().Set("X-MC-Type", "PVM")
	}
	s.lastRequest++
	w.Header().Set("X-Transaction-ID", fmt.Sprint("XT", s.lastRequest))
	if answer.etag != "" {
		w.Header()["ETag"] = []string{answer.etag} // unquoted, as the real service sends it
	}
	w.WriteHeader(answer.status)
	if answer.body != nil {
		answer.echo(r)
		answer.raw = answer.body.document()
	}
	_, _ = w.Write(answer.raw)
}

func (s *Server) nextFault(method, path string) *Fault {
	for _, f := range s.faults {
		if f.Times <= 0 || f.Method != "" && f.Method != method || !strings.Contains(path, f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.Times--
		return f
	}
	return nil
}

func (f *Fault) reply() reply {
	if f.Do != nil {
		f.Do()
	}
	switch {
	case f.Status == 0:
		return reply{}
	case f.NoBody:
		return reply{status: f.Status}
	case f.Plain:
		return reply{status: f.Status, raw: []byte("<html>" + f.Message + "</html>")}
	}
	return refuse(f.Status, f.Reason, "%s", f.Message)
}

// logon begins or ends a session.
func (s *Server) logon(r *http.Request, body *element) reply {
	if r.Method == http.MethodDelete {
		delete(s.sessions, r.Header.Get("X-API-Session"))
		return reply{status: http.StatusNoContent}
	}
	if r.Method != http.MethodPut || body == nil || body.name.Local != "LogonRequest" ||
		body.name.Space != webNamespace || !strings.HasSuffix(r.Header.Get("Content-Type"), "type=LogonRequest") {
		return refuse(http.StatusBadRequest, "", "not a LogonRequest")
	}
	s.lastToken++
	token := fmt.Sprintf("token-%d", s.lastToken)
	file := ""
	switch {
	case body.childText("GenerateX-API-SessionFile") == "true" && s.options.TokenDir != "" && !s.options.HMC:
		file = filepath.Join(s.options.TokenDir, token)
		if err := os.WriteFile(file, []byte("  "+token+"\n"), 0o600); err != nil {
			return refuse(http.StatusInternalServerError, "", "%v", err)
		}
	case s.options.Password == "" || body.childText("UserID") != s.options.User ||
		body.childText("Password") != s.options.Password:
		return refuse(http.StatusUnauthorized, "", "wrong user or password")
	}
	s.sessions[token] = true
	answer := web("LogonResponse", web("X-API-Session").text("\n "+token[:3]+"\n"+token[3:]+" \n"))
	if file != "" {
		answer = web("LogonResponse", web("X-API-SessionFile").text(file))
	}
	return reply{status: http.StatusOK, body: answer}
}

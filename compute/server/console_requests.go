package server

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// outputRoutes returns the paths of the answers of agents to requests for the output of a console.
func (s *server) outputRoutes() request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/consoles/{id}": {http.MethodPut: s.ByAgents(policies.ReportGuest, s.putConsole)},
	}
}

// consoleWait is how long a caller waits for the answer of an agent.
const consoleWait = 20 * time.Second

// consoles are the open requests for consoles. They are not stored: the caller waits, and this process has the streams
// of all agents.
type consoles struct {
	mu       sync.Mutex
	open     map[string]map[string]*openConsole    // by host and id
	watchers map[string]map[chan struct{}]struct{} // streams, by host
}

type openConsole struct {
	request host.ConsoleRequest
	answer  chan host.ConsoleOutput
	session *consoleSession // nil: not interactive
}

// request opens a request for what a guest has printed. close must be called when its caller stops waiting.
func (c *consoles) request(name, guest string) (answer <-chan host.ConsoleOutput, closed func()) {
	one := &openConsole{request: host.ConsoleRequest{ID: uuid.NewString(), Guest: guest, Bytes: host.MaxConsole},
		answer: make(chan host.ConsoleOutput, 1)}
	return one.answer, c.add(name, one)
}

// add adds a request and notifies the streams of the host. The returned function removes it.
func (c *consoles) add(name string, one *openConsole) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]map[string]*openConsole{}
	}
	if c.open[name] == nil {
		c.open[name] = map[string]*openConsole{}
	}
	c.open[name][one.request.ID] = one
	for watcher := range c.watchers[name] {
		select {
		case watcher <- struct{}{}:
		default:
		}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open[name], one.request.ID)
		if len(c.open[name]) == 0 {
			delete(c.open, name)
		}
	}
}

// watch returns a channel that receives a value when a request for a host was opened.
func (c *consoles) watch(name string) (opened <-chan struct{}, stop func()) {
	watcher := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers = map[string]map[chan struct{}]struct{}{}
	}
	if c.watchers[name] == nil {
		c.watchers[name] = map[chan struct{}]struct{}{}
	}
	c.watchers[name][watcher] = struct{}{}
	return watcher, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers[name], watcher)
		if len(c.watchers[name]) == 0 {
			delete(c.watchers, name)
		}
	}
}

// list returns the open requests of a host.
func (c *consoles) list(name string) (out []host.ConsoleRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(c.open[name])) {
		if one := c.open[name][id]; one.session == nil || !one.session.attached {
			out = append(out, one.request)
		}
	}
	return out
}

// resolve passes an answer to its caller and reports whether one waits.
func (c *consoles) resolve(name, id string, out host.ConsoleOutput) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.open[name][id]
	if one == nil {
		return false
	}
	delete(c.open[name], id)
	one.answer <- out
	return true
}

// putConsole is PUT /berth/v1/hosts/{host}/consoles/{id}: the answer of an agent.
func (s *server) putConsole(c *request.Call) error {
	var out host.ConsoleOutput
	if err := c.Read(8*host.MaxConsole, &out); err != nil { // JSON escapes some bytes
		return err
	}
	if !s.consoles.resolve(c.R.PathValue("host"), c.R.PathValue("id"), out) {
		return fault.New(fault.NotFound, "the request for the console is not open any more")
	}
	return c.WriteStatus(http.StatusNoContent)
}

// consoleOutput is the action os-getConsoleOutput: the last lines of what the guest has printed.
func (s *server) consoleOutput(c *request.Call, raw json.RawMessage, found lifecycle.Server) error {
	if err := c.Authorize(policies.ConsoleOutput, request.OwnerOf(found)); err != nil {
		return err
	}
	lines, err := readConsoleLength(raw)
	if err != nil {
		return err
	}
	if found.Host == "" {
		return fault.New(fault.Conflict, "Instance %s is not ready", found.ID)
	}
	answer, closed := s.consoles.request(found.Host, found.ID)
	defer closed()
	ctx, cancel := context.WithTimeout(c.R.Context(), consoleWait)
	defer cancel()
	select {
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "the agent of host %s has not sent the console of the server; check that "+
			"the host is up", found.Host)
	case out := <-answer:
		if out.Refused != "" {
			return fault.New(fault.NotFound, "Guest does not have a console available: %s", out.Refused)
		}
		return c.WriteJSON(http.StatusOK, map[string]string{"output": lastLines(out.Output, lines)})
	}
}

// readConsoleLength returns the number of lines that are wanted; -1: all.
func readConsoleLength(raw json.RawMessage) (int, error) {
	var body struct {
		Length any `json:"length"`
	}
	if err := json.Unmarshal(raw, &body); err != nil && !request.IsNull(raw) {
		return 0, fault.New(fault.Invalid, "Invalid input for os-getConsoleOutput: it must be an object")
	}
	text := ""
	switch length := body.Length.(type) {
	case nil:
		return -1, nil
	case string:
		text = length
	case float64:
		text = strconv.FormatFloat(length, 'f', -1, 64)
	}
	lines, err := strconv.Atoi(text)
	if err != nil || lines < -1 {
		return 0, fault.New(fault.Invalid, "length must be a number of lines, or -1 for all")
	}
	return lines, nil
}

// lastLines returns the last lines of a text; all if lines is negative.
func lastLines(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	if len(all) > 0 && all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	if lines < 0 || lines >= len(all) {
		return text
	}
	return strings.Join(all[len(all)-lines:], "")
}

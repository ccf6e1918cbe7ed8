package consoles

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// outputRoutes returns the paths of the answers of agents to requests for the output of a console.
func outputRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/consoles/{id}": {http.MethodPut: s.ByAgents(policies.ReportGuest, s.putConsole)},
	}
}

// consoleWait is how long a caller waits for the answer of an agent.
const consoleWait = 20 * time.Second

// putConsole is PUT /berth/v1/hosts/{host}/consoles/{id}: the answer of an agent.
func (s *Handlers) putConsole(c *request.Call) error {
	var out host.ConsoleOutput
	if err := c.ReadJSON(8*host.MaxConsole, &out); err != nil { // JSON escapes some bytes
		return err
	}
	if !s.Requests.resolve(c.R.PathValue("host"), c.R.PathValue("id"), out) {
		return fault.New(fault.NotFound, "the request for the console is not open any more")
	}
	return c.WriteStatus(http.StatusNoContent)
}

// Output is the action os-getConsoleOutput: the last lines of what the guest has printed.
func (s *Handlers) Output(c *request.Call, raw json.RawMessage, found lifecycle.Server) error {
	lines, err := readConsoleLength(raw)
	if err != nil {
		return err
	}
	if found.Host == "" {
		return fault.New(fault.Conflict, "Instance %s is not ready", found.ID)
	}
	out, err := s.ask(c, found, host.ConsoleRequest{Bytes: host.MaxConsole})
	if err != nil {
		return err
	}
	if out.Refused != "" {
		return fault.New(fault.NotFound, "Guest does not have a console available: %s", out.Refused)
	}
	return c.WriteJSON(http.StatusOK, map[string]string{"output": lastLines(out.Output, lines)})
}

// ask sends a request about the guest of a server to the agent of its host, and returns the answer. It returns
// fault.Unavailable if there is none within consoleWait. The log names the host, which users do not see.
func (s *Handlers) ask(c *request.Call, found lifecycle.Server, of host.ConsoleRequest) (out host.ConsoleOutput,
	err error) {
	of.Guest = found.ID
	answer, closed, err := s.Requests.request(found.Host, of)
	if err != nil {
		return out, err
	}
	defer closed()
	ctx, cancel := context.WithTimeout(c.R.Context(), consoleWait)
	defer cancel()
	select {
	case <-ctx.Done():
		s.Log.Warn("request about a guest not answered", "host", found.Host, "server", found.ID)
		return out, fault.New(fault.Unavailable, "the agent of the server's host has not answered; repeat the request, or "+
			"ask an administrator whether the host is up")
	case out = <-answer:
		return out, nil
	}
}

// readConsoleLength returns the number of lines that are wanted; -1: all.
func readConsoleLength(raw json.RawMessage) (int, error) {
	var body struct {
		Length any `json:"length"`
	}
	if err := json.Unmarshal(raw, &body); err != nil && !edge.IsNull(raw) {
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

// lastLines returns the last lines of a text, without the line break at its end; the whole text if lines is negative or
// there are not more.
func lastLines(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	if len(all) > 0 && all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	if lines < 0 || lines >= len(all) {
		return text
	}
	return strings.TrimSuffix(strings.Join(all[len(all)-lines:], ""), "\n")
}

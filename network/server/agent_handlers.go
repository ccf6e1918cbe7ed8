package server

import (
	"net/http"
	"strconv"

	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// byAgent returns a handler for the agent of the host in the path. The first account that contacts the service for a
// host is bound to the host; other accounts are refused.
func (s *server) byAgent(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		host := c.R.PathValue("host")
		bound, err := s.onAgents().AdmitAgent(c.R.Context(), host, c.Who.User, s.Strategy)
		if err != nil {
			return err
		}
		if bound != c.Who.User {
			return fault.New(fault.Forbidden, "", "account %s may not report host %s: the host is bound to another account; if "+
				"the account of its agent has changed, an administrator sends PUT /berth/v1/hosts/%s/account", c.Who.User, host,
				host)
		}
		return handle(c)
	}
}

// bindHost is PUT /berth/v1/hosts/{host}/account: an operator binds a host to an account.
func (s *server) bindHost(c *call) error {
	var body api.HostAccount
	if err := c.body(&body); err != nil {
		return err
	}
	if body.Account == "" || len(body.Account) > 255 {
		return fault.New(fault.Invalid, "", "account must be a user id of 1 to 255 bytes")
	}
	if err := s.onAgents().BindHost(c.R.Context(), c.R.PathValue("host"), body.Account, s.Strategy); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// reportAgent is PUT /berth/v1/network-agents/{host}/{type}.
func (s *server) reportAgent(c *call) error {
	var report api.AgentReport
	if err := c.body(&report); err != nil {
		return err
	}
	if err := s.onAgents().ReportAgent(c.R.Context(), c.R.PathValue("host"), c.R.PathValue("type"), report); err != nil {
		return err
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// hostPorts is GET /berth/v1/hosts/{host}/ports?since=REVISION.
func (s *server) hostPorts(c *call) error {
	since := int64(0)
	if text := c.R.URL.Query().Get("since"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return fault.New(fault.Invalid, "", "since must be a revision; it is %q", text)
		}
		since = n
	}
	ports, err := s.onAgents().HostPorts(c.R.Context(), c.R.PathValue("host"), since)
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, ports)
	}
	return err
}

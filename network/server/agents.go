package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/policies"
	"github.com/openberth/berth/network/store"
)

func (s handlers) onAgents() operations.Agents { return operations.Agents{Service: s.ops} }

// byAgent returns a handler for the agent of the host in the path. The first account that contacts the service for a
// host is bound to the host; other accounts are refused.
func (s handlers) byAgent(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		host := c.R.PathValue("host")
		bound, err := s.onAgents().AdmitAgent(c.R.Context(), host, c.Who.User, s.strategy)
		if err != nil {
			return err
		}
		if bound != c.Who.User {
			return fault.New(fault.Forbidden, "account %s may not report host %s: the host is bound to another account; if "+
				"the account of its agent has changed, an administrator sends PUT /berth/v1/hosts/%s/account", c.Who.User, host,
				host)
		}
		return handle(c)
	}
}

// bindHost is PUT /berth/v1/hosts/{host}/account: an operator binds a host to an account.
func (s handlers) bindHost(c *call) error {
	var body api.HostAccount
	if err := c.ReadJSON(maxBody, &body); err != nil {
		return err
	}
	if body.Account == "" || len(body.Account) > 255 {
		return fault.New(fault.Invalid, "account must be a user id of 1 to 255 bytes")
	}
	return c.Done(http.StatusNoContent,
		s.onAgents().BindHost(c.R.Context(), c.R.PathValue("host"), body.Account, s.strategy))
}

func (s handlers) reportAgent(c *call) error {
	var report api.AgentReport
	if err := c.ReadJSON(maxBody, &report); err != nil {
		return err
	}
	return c.Done(http.StatusNoContent,
		s.onAgents().ReportAgent(c.R.Context(), c.R.PathValue("host"), c.R.PathValue("type"), report))
}

func (s handlers) hostPorts(c *call) error {
	since := int64(0)
	if text := c.R.URL.Query().Get("since"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return fault.New(fault.Invalid, "since must be a revision; it is %q", text)
		}
		since = n
	}
	ports, err := s.onAgents().HostPorts(c.R.Context(), c.R.PathValue("host"), since)
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, ports)
	}
	return err
}

func (s handlers) hostNetworks(c *call) error {
	networks, err := s.onAgents().HostNetworks(c.R.Context(), c.R.PathValue("host"))
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, networks)
	}
	return err
}

// agents returns the collection of agents.
func (s handlers) agents() collection {
	return collection{one: "agent", many: "agents", missing: "AgentNotFound",
		attributes: []string{"id", "agent_type", "binary", "host", "admin_state_up", "alive", "topic", "description",
			"availability_zone"},
		list: func(c *call, q url.Values) ([]document, error) {
			found, err := operations.List[store.Agent](c.R.Context(), s.ops, store.Filter{IDs: q["id"], Hosts: q["host"]})
			var list []document
			for _, a := range found {
				list = append(list, c.agent(a))
			}
			return list, err
		},
		show: func(c *call, id string) (document, error) {
			a, err := operations.Get[store.Agent](c.R.Context(), s.ops, id)
			return c.agent(a), err
		},
		update: func(c *call, id string, _ int, o *edge.Object) (document, error) {
			a, err := s.onAgents().UpdateAgent(c.R.Context(), id, func(a *store.Agent) error {
				o := o.Copy()
				o.Flag("admin_state_up", &a.AdminUp)
				o.Text("description", &a.Description, 255)
				return o.Finish()
			})
			return c.agent(a), err
		},
		remove: func(c *call, id string, _ int) error { return s.onAgents().DeleteAgent(c.R.Context(), id) }}
}

// agent returns the document of an agent.
func (c *call) agent(a store.Agent) document {
	configurations := map[string]any{}
	if json.Unmarshal([]byte(a.Conf), &configurations) != nil || configurations == nil {
		configurations = map[string]any{}
	}
	var synced any
	if a.Synced != nil {
		synced = *a.Synced
	}
	alive := c.service.now().Sub(time.UnixMicro(a.Heartbeat)) < operations.AgentDownTime
	moment := func(micros int64) string { return time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05") }
	return document{map[string]any{"id": a.ID, "agent_type": a.Type, "binary": a.Name, "host": a.Host, "topic": "N/A",
		"admin_state_up": a.AdminUp, "alive": alive, "description": edge.OrNull(a.Description),
		"configurations": configurations, "resources_synced": synced, "availability_zone": nil,
		"resource_versions": map[string]any{},
		"created_at":        moment(a.Created), "started_at": moment(a.Started), "heartbeat_timestamp": moment(a.Heartbeat)},
		c.target("", nil)}
}

// agentRoutes returns the paths for Berth's own agents.
func (s handlers) agentRoutes() []edge.Route[*call] {
	return []edge.Route[*call]{
		{Path: "/berth/v1/network-agents/{host}/{type}", Methods: methods{
			http.MethodPut: {Spec: edge.Spec{Rule: policies.ReportAgent, Quiet: true}, Handle: s.byAgent(s.reportAgent)}}},
		{Path: "/berth/v1/hosts/{host}/ports", Methods: methods{
			http.MethodGet: {Spec: edge.Spec{Rule: policies.ReadPorts, Quiet: true}, Handle: s.byAgent(s.hostPorts)}}},
		{Path: "/berth/v1/hosts/{host}/networks", Methods: methods{
			http.MethodGet: {Spec: edge.Spec{Rule: policies.ReadPorts, Quiet: true}, Handle: s.byAgent(s.hostNetworks)}}},
		{Path: "/berth/v1/hosts/{host}/account", Methods: methods{
			http.MethodPut: {Spec: edge.Spec{Rule: policies.BindHost}, Handle: s.bindHost}}},
	}
}

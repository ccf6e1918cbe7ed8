package resources

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
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

func (s handlers) onAgents() operations.Agents { return operations.Agents{Service: s.Ops} }

// byAgent returns a handler for the agent of the host in the path. The first account that contacts the service for a
// host is bound to the host; other accounts are refused.
func (s handlers) byAgent(handle func(*request.Call) error) func(*request.Call) error {
	return func(c *request.Call) error {
		host := c.R.PathValue("host")
		bound, err := s.onAgents().AdmitAgent(c.R.Context(), host, c.Who.User, s.Strategy)
		if err != nil {
			return err
		}
		if bound != c.Who.User {
			return fault.New(fault.Forbidden,
				"account %s may not report host %s: the host is bound to another account; if "+
					"the account of its agent has changed, an administrator sends PUT /berth/v1/hosts/%s/account",
				c.Who.User, host,
				host)
		}
		return handle(c)
	}
}

// bindHost is PUT /berth/v1/hosts/{host}/account: an operator binds a host to an account.
func (s handlers) bindHost(c *request.Call) error {
	var body api.HostAccount
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	if body.Account == "" || len(body.Account) > 255 {
		return fault.New(fault.Invalid, "account must be a user id of 1 to 255 bytes")
	}
	return c.Done(http.StatusNoContent,
		s.onAgents().BindHost(c.R.Context(), c.R.PathValue("host"), body.Account, s.Strategy))
}

func (s handlers) reportAgent(c *request.Call) error {
	var report api.AgentReport
	if err := c.ReadJSON(request.MaxBody, &report); err != nil {
		return err
	}
	return c.Done(http.StatusNoContent,
		s.onAgents().ReportAgent(c.R.Context(), c.R.PathValue("host"), c.R.PathValue("type"), report))
}

func (s handlers) hostPorts(c *request.Call) error {
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

func (s handlers) hostNetworks(c *request.Call) error {
	networks, err := s.onAgents().HostNetworks(c.R.Context(), c.R.PathValue("host"))
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, networks)
	}
	return err
}

// agents returns the collection of agents.
func (s handlers) agents() request.Collection {
	return request.Collection{One: "agent", Many: "agents", Missing: "AgentNotFound",
		Attributes: []string{"id", "agent_type", "binary", "host", "admin_state_up", "alive", "topic", "description",
			"availability_zone"},
		List: func(c *request.Call, q url.Values) ([]request.Document, error) {
			found, err := operations.List[store.Agent](c.R.Context(), s.Ops,
				store.Filter{IDs: q["id"], Hosts: q["host"]})
			var list []request.Document
			for _, a := range found {
				list = append(list, agentDocument(c, a))
			}
			return list, err
		},
		Show: func(c *request.Call, id string) (request.Document, error) {
			a, err := operations.Get[store.Agent](c.R.Context(), s.Ops, id)
			return agentDocument(c, a), err
		},
		Update: func(c *request.Call, id string, _ int, o *edge.Object) (request.Document, error) {
			a, err := s.onAgents().UpdateAgent(c.R.Context(), id, func(a *store.Agent) error {
				o := o.Copy()
				o.Flag("admin_state_up", &a.AdminUp)
				o.Text("description", &a.Description, 255)
				return o.Finish()
			})
			return agentDocument(c, a), err
		},
		Remove: func(c *request.Call, id string, _ int) error { return s.onAgents().DeleteAgent(c.R.Context(), id) }}
}

// agentDocument returns the document of an agent.
func agentDocument(c *request.Call, a store.Agent) request.Document {
	configurations := map[string]any{}
	if json.Unmarshal([]byte(a.Conf), &configurations) != nil || configurations == nil {
		configurations = map[string]any{}
	}
	var synced any
	if a.Synced != nil {
		synced = *a.Synced
	}
	alive := c.Service.Now().Sub(time.UnixMicro(a.Heartbeat)) < operations.AgentDownTime
	moment := func(micros int64) string { return time.UnixMicro(micros).UTC().Format("2006-01-02 15:04:05") }
	return request.Document{View: map[string]any{"id": a.ID, "agent_type": a.Type, "binary": a.Name, "host": a.Host,
		"topic":          "N/A",
		"admin_state_up": a.AdminUp, "alive": alive, "description": edge.OrNull(a.Description),
		"configurations": configurations, "resources_synced": synced, "availability_zone": nil,
		"resource_versions": map[string]any{},
		"created_at":        moment(a.Created), "started_at": moment(a.Started),
		"heartbeat_timestamp": moment(a.Heartbeat)},
		Target: c.Target("", nil)}
}

// agentRoutes returns the paths for Berth's own agents.
func (s handlers) agentRoutes() []edge.Route[*request.Call] {
	return []edge.Route[*request.Call]{
		{Path: "/berth/v1/network-agents/{host}/{type}", Methods: request.Methods{
			http.MethodPut: {Spec: edge.Spec{Rule: policies.ReportAgent, Quiet: true},
				Handle: s.byAgent(s.reportAgent)}}},
		{Path: "/berth/v1/hosts/{host}/ports", Methods: request.Methods{
			http.MethodGet: {Spec: edge.Spec{Rule: policies.ReadPorts, Quiet: true}, Handle: s.byAgent(s.hostPorts)}}},
		{Path: "/berth/v1/hosts/{host}/networks", Methods: request.Methods{
			http.MethodGet: {Spec: edge.Spec{Rule: policies.ReadPorts, Quiet: true},
				Handle: s.byAgent(s.hostNetworks)}}},
		{Path: "/berth/v1/hosts/{host}/account", Methods: request.Methods{
			http.MethodPut: {Spec: edge.Spec{Rule: policies.BindHost}, Handle: s.bindHost}}},
	}
}

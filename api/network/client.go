package network

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// CatalogType is the type of the service in Keystone's catalog.
const CatalogType = "network"

// Client calls a Networking API: that of Neutron or of `berth network`. Every error is a fault; the code of a fault is
// the type of Neutron's error, such as PortNotFound.
type Client struct{ REST *rest.Client }

// NewClient returns a client of the service at base (such as "http://127.0.0.1:9696"); client nil means a default one.
func NewClient(base string, client *http.Client, token string) *Client {
	return &Client{REST: &rest.Client{Base: RootURL(base), HTTP: client,
		Headers: map[string]string{"X-Auth-Token": token}}}
}

// RootURL returns the address of a service without the version that its URL may have in a catalog.
func RootURL(address string) string {
	return strings.TrimSuffix(strings.TrimRight(address, "/"), "/v2.0")
}

// LocateRoot returns the address that a function returns for the service, without the version; nil for nil.
func LocateRoot(locate func(context.Context) (string, error)) func(context.Context) (string, error) {
	if locate == nil {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		address, err := locate(ctx)
		return RootURL(address), err
	}
}

// pageSize is how many objects a list requests at once, and maxPages how many pages it reads.
const (
	pageSize = 500
	maxPages = 1000
)

// list reads all pages of a collection. id returns the marker of an object.
func list[T any](ctx context.Context, c *Client, path, key string, q url.Values, id func(T) string) ([]T, error) {
	all := []T{}
	query := url.Values{"limit": {strconv.Itoa(pageSize)}, "sort_key": {"id"}, "sort_dir": {"asc"}}
	for name, values := range q {
		query[name] = values
	}
	for range maxPages {
		var body map[string][]T
		more, err := c.page(ctx, path+"?"+query.Encode(), key, &body)
		if err != nil {
			return nil, err
		}
		all = append(all, body[key]...)
		if len(body[key]) == 0 || len(body[key]) < pageSize && !more {
			return all, nil
		}
		query.Set("marker", id(all[len(all)-1]))
	}
	return nil, fault.New(fault.Internal, "the list does not end after %d pages", maxPages)
}

// page reads a page of a list. more reports whether the answer has a link to the next page: the service may have a
// smaller limit, pagination_max_limit.
func (c *Client) page(ctx context.Context, path, key string, into any) (more bool, err error) {
	answer, err := c.REST.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return false, withType(err, answer)
	}
	var body map[string]json.RawMessage
	var links []map[string]string
	if json.Unmarshal(answer.Body, &body) == nil && json.Unmarshal(body[key+"_links"], &links) == nil {
		more = slices.ContainsFunc(links, func(l map[string]string) bool { return l["rel"] == "next" })
	}
	return more, decodeKey(answer.Body, key, into)
}

// get reads a body in which only one key has the type of into.
func (c *Client) get(ctx context.Context, path, key string, into any) error {
	answer, err := c.REST.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return withType(err, answer)
	}
	return decodeKey(answer.Body, key, into)
}

// send sends a request with an object under a key and decodes the object of the answer.
func (c *Client) send(ctx context.Context, method, path, key string, body, into any) error {
	var sent any
	if body != nil {
		sent = map[string]any{key: body}
	}
	answer, err := c.REST.Do(ctx, method, path, sent, nil)
	if err != nil {
		return withType(err, answer)
	}
	if into == nil {
		return nil
	}
	return decodeObject(answer.Body, key, into)
}

// Networks lists the networks that a query selects.
func (c *Client) Networks(ctx context.Context, q url.Values) ([]Network, error) {
	return list(ctx, c, "/v2.0/networks", "networks", q, func(n Network) string { return n.ID })
}

// Network reads a network.
func (c *Client) Network(ctx context.Context, id string) (n Network, err error) {
	err = c.send(ctx, http.MethodGet, "/v2.0/networks/"+url.PathEscape(id), "network", nil, &n)
	return n, err
}

// CreateNetwork creates a network from attributes of the API.
func (c *Client) CreateNetwork(ctx context.Context, attributes map[string]any) (n Network, err error) {
	err = c.send(ctx, http.MethodPost, "/v2.0/networks", "network", attributes, &n)
	return n, err
}

// Subnets lists the subnets that a query selects.
func (c *Client) Subnets(ctx context.Context, q url.Values) ([]Subnet, error) {
	return list(ctx, c, "/v2.0/subnets", "subnets", q, func(s Subnet) string { return s.ID })
}

// CreateSubnet creates a subnet from attributes of the API.
func (c *Client) CreateSubnet(ctx context.Context, attributes map[string]any) (s Subnet, err error) {
	err = c.send(ctx, http.MethodPost, "/v2.0/subnets", "subnet", attributes, &s)
	return s, err
}

// Ports lists the ports that a query selects.
func (c *Client) Ports(ctx context.Context, q url.Values) ([]Port, error) {
	return list(ctx, c, "/v2.0/ports", "ports", q, func(p Port) string { return p.ID })
}

// Port reads a port.
func (c *Client) Port(ctx context.Context, id string) (p Port, err error) {
	err = c.send(ctx, http.MethodGet, "/v2.0/ports/"+url.PathEscape(id), "port", nil, &p)
	return p, ofPort(err)
}

// ofPort returns the error of a request for a port. An answer 404 without the type of an error is one of a proxy that
// has no service, and does not say that the port is gone: it is fault.Unavailable. Paths that not each network service
// has, such as those of bindings, are another case: they may be answered in any form.
func ofPort(err error) error {
	if fault.Is(err, fault.NotFound) && fault.CodeOf(err) == "" {
		return fault.New(fault.Unavailable, "the answer 404 of the network service is not one of its API; check the "+
			"address and the proxy in front of it (%s)", fault.TextOf(err))
	}
	return err
}

// CreatePort creates a port from attributes of the API.
func (c *Client) CreatePort(ctx context.Context, attributes map[string]any) (p Port, err error) {
	err = c.send(ctx, http.MethodPost, "/v2.0/ports", "port", attributes, &p)
	return p, err
}

// UpdatePort changes attributes of a port; the others stay.
func (c *Client) UpdatePort(ctx context.Context, id string, attributes map[string]any) (p Port, err error) {
	err = c.send(ctx, http.MethodPut, "/v2.0/ports/"+url.PathEscape(id), "port", attributes, &p)
	return p, ofPort(err)
}

// PortChanged is the code of the fault of UpdatePortAt for a port with another revision.
const PortChanged = "RevisionNumberConstraintFailed"

// UpdatePortAt is UpdatePort for a port that no other client has changed since it had this revision. The code of the
// fault is PortChanged if one has; revision 0 is any.
func (c *Client) UpdatePortAt(ctx context.Context, id string, revision int, attributes map[string]any) (p Port,
	err error) {
	if revision == 0 {
		return c.UpdatePort(ctx, id, attributes)
	}
	at := Client{REST: c.REST.WithHeader("If-Match", "revision_number="+strconv.Itoa(revision))}
	p, err = at.UpdatePort(ctx, id, attributes)
	if answer := rest.StatusOf(err); answer != nil && answer.Code == http.StatusPreconditionFailed {
		err = fault.New(fault.Conflict, "port %s was changed by another client: %w", id, err).
			WithCode(PortChanged)
	}
	return p, err
}

// DeletePort removes a port. It returns nil also if the port does not exist.
func (c *Client) DeletePort(ctx context.Context, id string) error {
	err := ofPort(c.send(ctx, http.MethodDelete, "/v2.0/ports/"+url.PathEscape(id), "port", nil, nil))
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// PortBindings lists the bindings of a port.
func (c *Client) PortBindings(ctx context.Context, port string) (all []PortBinding, err error) {
	var body map[string][]PortBinding
	err = c.get(ctx, bindingPath(port, ""), "bindings", &body)
	return body["bindings"], err
}

// BindPort adds an inactive binding of a port to a host, with the profile of the host.
func (c *Client) BindPort(ctx context.Context, port, host, vnicType string, profile map[string]any) (b PortBinding,
	err error) {
	err = c.send(ctx, http.MethodPost, bindingPath(port, ""), "binding",
		map[string]any{"host": host, "vnic_type": vnicType, "profile": profile}, &b)
	return b, err
}

// ActivatePortBinding makes the binding of a port to a host the active one. The code of the fault is
// PortBindingAlreadyActive if it is.
func (c *Client) ActivatePortBinding(ctx context.Context, port, host string) error {
	return c.send(ctx, http.MethodPut, bindingPath(port, host)+"/activate", "binding", nil, nil)
}

// DeletePortBinding removes the binding of a port to a host. It returns nil also if there is none.
func (c *Client) DeletePortBinding(ctx context.Context, port, host string) error {
	err := c.send(ctx, http.MethodDelete, bindingPath(port, host), "binding", nil, nil)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// bindingPath returns the path of the binding of a port to a host; empty: of all its bindings.
func bindingPath(port, host string) string {
	path := "/v2.0/ports/" + url.PathEscape(port) + "/bindings"
	if host != "" {
		path += "/" + url.PathEscape(host)
	}
	return path
}

// Segments lists the segments that a query selects.
func (c *Client) Segments(ctx context.Context, q url.Values) ([]Segment, error) {
	return list(ctx, c, "/v2.0/segments", "segments", q, func(s Segment) string { return s.ID })
}

// Policies lists the QoS policies that a query selects, with their rules.
func (c *Client) Policies(ctx context.Context, q url.Values) ([]Policy, error) {
	return list(ctx, c, "/v2.0/qos/policies", "policies", q, func(p Policy) string { return p.ID })
}

// CreatePolicy creates a QoS policy.
func (c *Client) CreatePolicy(ctx context.Context, attributes map[string]any) (p Policy, err error) {
	err = c.send(ctx, http.MethodPost, "/v2.0/qos/policies", "policy", attributes, &p)
	return p, err
}

// CreateRule adds a rule of a type, such as minimum_bandwidth, to a policy.
func (c *Client) CreateRule(ctx context.Context, policy, kind string, attributes map[string]any) (r Rule, err error) {
	path := "/v2.0/qos/policies/" + url.PathEscape(policy) + "/" + kind + "_rules"
	err = c.send(ctx, http.MethodPost, path, kind+"_rule", attributes, &r)
	return r, err
}

// Agents lists the agents that a query selects.
func (c *Client) Agents(ctx context.Context, q url.Values) (all []Agent, err error) {
	var body map[string][]Agent
	err = c.get(ctx, "/v2.0/agents?"+q.Encode(), "agents", &body)
	return body["agents"], err
}

// Extensions returns the aliases of the service's extensions.
func (c *Client) Extensions(ctx context.Context) (aliases []string, err error) {
	var body map[string][]struct{ Alias string }
	err = c.get(ctx, "/v2.0/extensions", "extensions", &body)
	for _, e := range body["extensions"] {
		aliases = append(aliases, e.Alias)
	}
	return aliases, err
}

// Quota returns the limits of a project by resource; -1: no limit.
func (c *Client) Quota(ctx context.Context, project string) (limits map[string]int, err error) {
	err = c.send(ctx, http.MethodGet, "/v2.0/quotas/"+url.PathEscape(project), "quota", nil, &limits)
	return limits, err
}

// ReportAgent reports an agent of a host. Only `berth network` has this request.
func (c *Client) ReportAgent(ctx context.Context, host, agentType string, report AgentReport) error {
	path := "/berth/v1/network-agents/" + url.PathEscape(host) + "/" + url.PathEscape(agentType)
	answer, err := c.REST.Do(ctx, http.MethodPut, path, report, nil)
	return withType(err, answer)
}

// HostPorts returns the ports of a host that have changed since a revision; 0: all. Only `berth network` has this
// request.
func (c *Client) HostPorts(ctx context.Context, host string, since int64) (all HostPorts, err error) {
	path := "/berth/v1/hosts/" + url.PathEscape(host) + "/ports?since=" + strconv.FormatInt(since, 10)
	answer, err := c.REST.Do(ctx, http.MethodGet, path, nil, &all)
	return all, withType(err, answer)
}

// HostNetworks returns the networks of a host that are connected by Linux bridges. Only `berth network` has this
// request.
func (c *Client) HostNetworks(ctx context.Context, host string) (all HostNetworks, err error) {
	answer, err := c.REST.Do(ctx, http.MethodGet, "/berth/v1/hosts/"+url.PathEscape(host)+"/networks", nil, &all)
	return all, withType(err, answer)
}

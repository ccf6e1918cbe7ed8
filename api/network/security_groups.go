package network

import (
	"context"
	"net/http"
	"net/url"
)

// The aliases of the extensions of a network service that has security groups, and of one whose projects can share
// them.
const (
	SecurityGroupExtension       = "security-group"
	SharedSecurityGroupExtension = "rbac-security-groups"
)

// SecurityGroup is a security group of the network service, which filters the traffic of ports.
type SecurityGroup struct {
	ID          string              `json:"id"`
	Name        string              `json:"name"`
	Description string              `json:"description"`
	Project     string              `json:"project_id"`
	Rules       []SecurityGroupRule `json:"security_group_rules"`
}

// SecurityGroupRule is traffic that a security group permits. Texts are empty and numbers nil for null: any.
type SecurityGroupRule struct {
	ID          string `json:"id"`
	Group       string `json:"security_group_id"`
	Direction   string `json:"direction"` // ingress or egress
	Protocol    string `json:"protocol"`
	MinPort     *int   `json:"port_range_min"`
	MaxPort     *int   `json:"port_range_max"`
	RemoteGroup string `json:"remote_group_id"`
	RemoteCIDR  string `json:"remote_ip_prefix"`
}

// SecurityGroups lists the security groups that a query selects.
func (c *Client) SecurityGroups(ctx context.Context, q url.Values) ([]SecurityGroup, error) {
	return list(ctx, c, "/v2.0/security-groups", "security_groups", q, func(g SecurityGroup) string { return g.ID })
}

// CreateSecurityGroup creates a security group from attributes of the API.
func (c *Client) CreateSecurityGroup(ctx context.Context, attributes map[string]any) (g SecurityGroup, err error) {
	err = c.send(ctx, http.MethodPost, "/v2.0/security-groups", "security_group", attributes, &g)
	return g, err
}

// UpdateSecurityGroup changes attributes of a security group.
func (c *Client) UpdateSecurityGroup(ctx context.Context, id string, attributes map[string]any) (g SecurityGroup,
	err error) {
	err = c.send(ctx, http.MethodPut, "/v2.0/security-groups/"+url.PathEscape(id), "security_group", attributes, &g)
	return g, err
}

// DeleteSecurityGroup removes a security group.
func (c *Client) DeleteSecurityGroup(ctx context.Context, id string) error {
	return c.send(ctx, http.MethodDelete, "/v2.0/security-groups/"+url.PathEscape(id), "", nil, nil)
}

// CreateSecurityGroupRule creates a rule of a security group from attributes of the API.
func (c *Client) CreateSecurityGroupRule(ctx context.Context, attributes map[string]any) (r SecurityGroupRule,
	err error) {
	err = c.send(ctx, http.MethodPost, "/v2.0/security-group-rules", "security_group_rule", attributes, &r)
	return r, err
}

// DeleteSecurityGroupRule removes a rule of a security group.
func (c *Client) DeleteSecurityGroupRule(ctx context.Context, id string) error {
	return c.send(ctx, http.MethodDelete, "/v2.0/security-group-rules/"+url.PathEscape(id), "", nil, nil)
}

// PacketDecision is what the security groups of a port decide about the first packet of a connection.
type PacketDecision struct {
	Allowed   bool   `json:"allowed"`
	Reason    string `json:"reason"`
	Address   string `json:"address"`              // of the port
	Group     string `json:"group_id,omitempty"`   // whose rule permits the packet
	GroupName string `json:"group_name,omitempty"` // of that group
	Rule      string `json:"rule_id,omitempty"`
	// NotEnforced is why nothing enforces the decision where the port is bound; empty if something does.
	NotEnforced string `json:"not_enforced,omitempty"`
}

// ExplainPacket returns what the security groups of a port decide about a packet. The query has from or to, the address
// of the other end, and protocol, port, type, code and address, that of the port. Only `berth network` has this
// request.
func (c *Client) ExplainPacket(ctx context.Context, port string, q url.Values) (d PacketDecision, err error) {
	path := "/berth/v1/ports/" + url.PathEscape(port) + "/packet-decision?" + q.Encode()
	answer, err := c.REST.Do(ctx, http.MethodGet, path, nil, &d)
	return d, withType(err, answer)
}

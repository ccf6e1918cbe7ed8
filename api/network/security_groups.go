package network

import (
	"context"
	"net/url"
)

// The aliases of the extensions of a network service that has security groups, and of one that finds those that other
// projects share.
const (
	SecurityGroupExtension       = "security-group"
	SharedSecurityGroupExtension = "security-groups-shared-filtering"
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

package network

import (
	"context"
	"net/url"

	"github.com/openberth/berth/fault"
)

// The types of objects that are shared by RBAC policies.
const (
	SharedNetwork       = "network"
	SharedSecurityGroup = "security_group"
)

// SharedWith returns the ids of the objects of a type that are shared with a project, or with all; none if the service
// has no RBAC policies. The attribute shared of an object is about the project of the client's account instead.
func (c *Client) SharedWith(ctx context.Context, kind, project string) (ids []string, err error) {
	type grant struct {
		ID     string `json:"id"`
		Object string `json:"object_id"`
	}
	grants, err := list(ctx, c, "/v2.0/rbac-policies", "rbac_policies", url.Values{"object_type": {kind},
		"action": {"access_as_shared"}, "target_tenant": {project, "*"}}, func(g grant) string { return g.ID })
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	for _, g := range grants {
		ids = append(ids, g.Object)
	}
	return ids, err
}

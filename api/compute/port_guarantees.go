package compute

import (
	"context"
	"net/http"
	"net/url"
)

// PortGuarantee is what a port of a server has in Placement since a revision of the port, by resource class.
type PortGuarantee struct {
	Revision int            `json:"revision"`
	Amounts  map[string]int `json:"amounts"`
}

// Guarantees is what the network service sends about a change of QoS policies: before it, what the ports of a server
// get beside what they have; after it, what they have. One of both is set.
type Guarantees struct {
	More  map[string]int           `json:"more,omitempty"`
	Ports map[string]PortGuarantee `json:"ports,omitempty"` // by the id of the port
}

// SendGuarantees sends what a change of policies means for the ports of a server. It may be repeated. It returns
// fault.Conflict if a quota of the project does not permit more, and fault.NotFound for a server that does not exist,
// and for OpenStack's Nova, which has no such request.
func (c *Client) SendGuarantees(ctx context.Context, server, change string, g Guarantees) error {
	_, err := c.REST.Do(ctx, http.MethodPut, "/berth/v1/servers/"+url.PathEscape(server)+"/guarantees/"+
		url.PathEscape(change), g, nil)
	return err
}

package compute

import (
	"context"
	"net/http"
	"net/url"
)

// Binary is OpenStack's name of the service of a host.
const Binary = "nova-compute"

// ServiceDoc is the agent of a host, as operators see it.
type ServiceDoc struct {
	ID         any     `json:"id,omitempty"` // a number, since 2.53 a UUID
	Binary     string  `json:"binary"`
	Host       string  `json:"host"`
	Zone       string  `json:"zone,omitempty"`
	Status     string  `json:"status,omitempty"`
	State      string  `json:"state,omitempty"` // up or down
	Updated    *string `json:"updated_at,omitempty"`
	Reason     *string `json:"disabled_reason,omitempty"`
	ForcedDown *bool   `json:"forced_down,omitempty"` // 2.11
}

// HostDown declares a host permanently dead, or reverses that. down releases the allocations of leftovers on the host.
func (c *Client) HostDown(ctx context.Context, host string, down bool) error {
	method := http.MethodPut
	if !down {
		method = http.MethodDelete
	}
	_, err := c.REST.Do(ctx, method, "/berth/v1/hosts/"+url.PathEscape(host)+"/down", nil, nil)
	return err
}

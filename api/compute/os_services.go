package compute

import (
	"context"
	"fmt"
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

// Services lists the agents of hosts.
func (c *Client) Services(ctx context.Context) ([]ServiceDoc, error) {
	var out struct {
		Services []ServiceDoc `json:"services"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/os-services?binary="+Binary, nil, &out)
	return out.Services, err
}

// SetServiceStatus enables or disables the service of a host. The service is one that Services has returned.
func (c *Client) SetServiceStatus(ctx context.Context, service ServiceDoc, enabled bool, reason string) error {
	body := map[string]string{"status": "enabled"}
	if !enabled {
		body["status"] = "disabled"
		if reason != "" {
			body["disabled_reason"] = reason
		}
	}
	_, err := c.REST.Do(ctx, http.MethodPut, "/v2.1/os-services/"+url.PathEscape(fmt.Sprint(service.ID)), body, nil)
	return err
}

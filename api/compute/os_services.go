package compute

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// Binary is OpenStack's name of the service of a host.
const Binary = "nova-compute"

// The services of the process of compute, which OpenStack has as processes of their own.
const (
	Scheduler = "nova-scheduler"
	Conductor = "nova-conductor"
)

// ServiceDoc is the agent of a host, or a service of compute, as operators see it.
type ServiceDoc struct {
	ID         any     `json:"id,omitempty"` // a number, since 2.53 a UUID
	Binary     string  `json:"binary"`
	Host       string  `json:"host"`
	Zone       string  `json:"zone,omitempty"`
	Status     string  `json:"status,omitempty"`
	State      string  `json:"state,omitempty"`      // up or down
	Updated    *string `json:"updated_at,omitempty"` // null before the first report
	Reason     *string `json:"disabled_reason"`
	ForcedDown *bool   `json:"forced_down,omitempty"` // 2.11
}

// ServiceStatus is the answer to a change of the status until 2.52.
type ServiceStatus struct {
	Binary string  `json:"binary"`
	Host   string  `json:"host"`
	Status string  `json:"status"`                    // enabled or disabled
	Reason *string `json:"disabled_reason,omitempty"` // of disable-log-reason
}

// ServiceDown is the answer to a change of forced_down until 2.52.
type ServiceDown struct {
	Binary     string `json:"binary"`
	Host       string `json:"host"`
	ForcedDown bool   `json:"forced_down"`
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
func (c *Client) Services(ctx context.Context) ([]ServiceDoc, error) { return c.ServicesOf(ctx, "") }

// ServicesOf returns the compute service of a host: an empty list if there is none.
func (c *Client) ServicesOf(ctx context.Context, host string) ([]ServiceDoc, error) {
	var out struct {
		Services []ServiceDoc `json:"services"`
	}
	query := url.Values{"binary": {Binary}}
	if host != "" {
		query.Set("host", host)
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/v2.1/os-services?"+query.Encode(), nil, &out)
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

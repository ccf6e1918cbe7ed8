package host

import (
	"context"
	"net/http"
	"net/url"
)

// Headroom is how many more servers of a flavor fit.
type Headroom struct {
	Fits    int            `json:"fits"`
	Exact   bool           `json:"exact"` // false: more servers may fit
	Reason  string         `json:"reason,omitempty"`
	RunsOut []RunsOut      `json:"runs_out"` // the class that more hosts lack first comes first
	ByHost  []HostHeadroom `json:"hosts"`
}

// RunsOut is a resource class of which hosts have too little for one more server than fits.
type RunsOut struct {
	Class string `json:"resource_class"`
	Hosts int    `json:"hosts"`
}

// HostHeadroom is how many more servers fit on one host.
type HostHeadroom struct {
	Host     string   `json:"host"`
	Fits     int      `json:"fits"`
	Exact    bool     `json:"exact"`              // false: more servers may fit, as for the sum
	Lacks    []string `json:"lacks"`              // classes that one more server lacks
	Excluded string   `json:"excluded,omitempty"` // why the scheduler chooses the host for no server now
	Refused  string   `json:"refused,omitempty"`  // why a filter refuses one more server than fits
}

// Headroom returns how many more servers of a flavor fit, each with these ports. A port is described as in
// `vnic_type=direct,physical_network=physnet0,egress=1000,ingress=1000`. fault.NotFound: there is no such flavor;
// fault.Invalid: no host can serve the flavor or a port.
func (c Client) Headroom(ctx context.Context, flavor string, ports []string) (out Headroom, err error) {
	query := url.Values{"flavor": {flavor}}
	for _, p := range ports {
		query.Add("port", p)
	}
	_, err = c.REST.Do(ctx, http.MethodGet, "/berth/v1/headroom?"+query.Encode(), nil, &out)
	return out, err
}

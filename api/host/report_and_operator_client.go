package host

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// Client is the client of the contract, for agents, operators and other programs.
type Client struct{ REST *rest.Client }

func path(host string, rest ...string) string {
	p := "/berth/v1/hosts/" + url.PathEscape(host)
	for _, r := range rest {
		p += "/" + url.PathEscape(r)
	}
	return p
}

// PutReport sends the report of a host. It returns Conflict if another start of an agent serves the host, because of
// *Occupied if that start may have ended.
func (c Client) PutReport(ctx context.Context, r Report) error {
	p := path(r.Host)
	answer, err := c.REST.Do(ctx, http.MethodPut, p, r, nil)
	return occupied(answer.Header.Get("Retry-After"), err)
}

// PutGuest sends the report of a guest on a host. It returns Conflict if compute refuses it, because of *Late if it is
// older than the last one.
func (c Client) PutGuest(ctx context.Context, host, server string, g Guest) error {
	p := path(host, "guests", server)
	answer, err := c.REST.Do(ctx, http.MethodPut, p, g, nil)
	if text := answer.Header.Get(Latest); err != nil && text != "" {
		number, wrong := strconv.ParseInt(text, 10, 64)
		if wrong != nil {
			return fault.New(fault.Internal, "header %s of the answer is not a number: %w", Latest, wrong)
		}
		return fault.Wrap(fault.Conflict, &Late{Number: number})
	}
	return err
}

// Hosts returns the reports of all hosts.
func (c Client) Hosts(ctx context.Context) ([]Report, error) {
	var out struct {
		Hosts []Report `json:"hosts"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/berth/v1/hosts", nil, &out)
	return out.Hosts, err
}

// HostReport returns the last report of a host, as Hosts does. It returns fault.NotFound, with similar names, if no
// agent has reported for it.
func (c Client) HostReport(ctx context.Context, host string) (out Report, err error) {
	_, err = c.REST.Do(ctx, http.MethodGet, path(host), nil, &out)
	return out, err
}

// Device returns a device of a host. It returns fault.NotFound, with similar names, for an unknown host or device.
func (c Client) Device(ctx context.Context, host, address string) (out Device, err error) {
	_, err = c.REST.Do(ctx, http.MethodGet, path(host, "devices", address), nil, &out)
	return out, err
}

// Devices returns the devices of all hosts, by host and address.
func (c Client) Devices(ctx context.Context) ([]Device, error) {
	var out struct {
		Devices []Device `json:"devices"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/berth/v1/devices", nil, &out)
	return out.Devices, err
}

// Clean requests that a device for one-time use is cleaned and released. It returns when compute has recorded the
// request; Device.Spent and Device.Refused have the result. It returns Conflict if the device has not been used, or a
// server has it.
func (c Client) Clean(ctx context.Context, host, address string) error {
	_, err := c.REST.Do(ctx, http.MethodPost, path(host, "devices", address, "clean"), nil, nil)
	return err
}

// Forget removes a host that will never return from compute, and its providers from Placement. It returns Conflict if
// the host may be alive, or a server is placed on it.
func (c Client) Forget(ctx context.Context, host string) (out Forgotten, err error) {
	_, err = c.REST.Do(ctx, http.MethodDelete, path(host), nil, &out)
	return out, err
}

// Bind binds a host to the account that may speak for it. It replaces another binding.
func (c Client) Bind(ctx context.Context, host, account string) error {
	_, err := c.REST.Do(ctx, http.MethodPut, path(host, "account"), Account{account}, nil)
	return err
}

// Unbind removes the binding of a host: the next account that contacts compute for it is bound. It returns NotFound if
// the host is not bound.
func (c Client) Unbind(ctx context.Context, host string) error {
	_, err := c.REST.Do(ctx, http.MethodDelete, path(host, "account"), nil, nil)
	return err
}

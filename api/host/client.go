package host

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// Client is the agent's side of the contract, and the readers' side.
type Client struct{ REST *rest.Client }

func path(host string, rest ...string) string {
	p := "/berth/v1/hosts/" + url.PathEscape(host)
	for _, r := range rest {
		p += "/" + url.PathEscape(r)
	}
	return p
}

// PutReport tells compute what the host has.
func (c Client) PutReport(ctx context.Context, r Report) error {
	_, err := c.REST.Do(ctx, http.MethodPut, path(r.Host), r, nil)
	return err
}

// PutGuest tells compute what became of a server on the host. Conflict: compute does not take it; with *Late as its cause because it is
// older than what compute has heard.
func (c Client) PutGuest(ctx context.Context, host, server string, g Guest) error {
	p := path(host, "guests", server)
	answer, err := c.REST.Do(ctx, http.MethodPut, p, g, nil)
	if text := answer.Header.Get(Latest); err != nil && text != "" {
		number, wrong := strconv.ParseInt(text, 10, 64)
		if wrong != nil {
			return fault.New(fault.Internal, "PUT "+p, "the answer's %s is no number: %w", Latest, wrong)
		}
		return fault.Wrap(fault.Conflict, "PUT "+p, &Late{Number: number})
	}
	return err
}

// Hosts reads the reports of all hosts.
func (c Client) Hosts(ctx context.Context) ([]Report, error) {
	var out struct {
		Hosts []Report `json:"hosts"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/berth/v1/hosts", nil, &out)
	return out.Hosts, err
}

// Devices reads the devices of all hosts, by host and address.
func (c Client) Devices(ctx context.Context) ([]Device, error) {
	var out struct {
		Devices []Device `json:"devices"`
	}
	_, err := c.REST.Do(ctx, http.MethodGet, "/berth/v1/devices", nil, &out)
	return out.Devices, err
}

// Clean asks that a device for one-time use is cleaned and given back. It returns when compute has taken the wish; the device tells
// what became of it. Conflict: it has not been used, or somebody holds it.
func (c Client) Clean(ctx context.Context, host, address string) error {
	_, err := c.REST.Do(ctx, http.MethodPost, path(host, "devices", address, "clean"), nil, nil)
	return err
}

// Forget removes a host that will never return from compute, and its providers from Placement. Conflict: it may be alive, or something stands on it.
func (c Client) Forget(ctx context.Context, host string) (out Forgotten, err error) {
	_, err = c.REST.Do(ctx, http.MethodDelete, path(host), nil, &out)
	return out, err
}

// Admit asks whether this instance of an agent may serve a host. Conflict: another one does.
func (c Client) Admit(ctx context.Context, host, instance string) error {
	_, resp, err := c.stream(ctx, host, instance, 0)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// stream opens the stream of assignments.
func (c Client) stream(ctx context.Context, host, instance string, since int64) (p string, resp *http.Response, err error) {
	p = path(host, "assignments") + "?" + url.Values{"since": {strconv.FormatInt(since, 10)}, "instance": {instance}}.Encode()
	if resp, err = c.REST.Send(ctx, http.MethodGet, p, nil); err != nil {
		return p, nil, err
	}
	return p, resp, rest.AnswerFault(http.MethodGet, p, resp)
}

// Watch reads the assignments of a host from revision since on (0: from the start) and hands each line to got, until
// the context ends, the stream breaks or got returns an error. It always returns an error; the
// context's own is the quiet end. Conflict: another instance of an agent serves the host. An onlooker has no instance.
func (c Client) Watch(ctx context.Context, host, instance string, since int64, got func(Assignments) error) error {
	p, resp, err := c.stream(ctx, host, instance, since)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fault.New(fault.Unavailable, "GET "+p, "the stream of assignments ended: %w", err)
		}
		var a Assignments
		if err := json.Unmarshal(line, &a); err != nil {
			return fault.New(fault.Internal, "GET "+p, "a line of assignments is not what the contract promises: %w", err)
		}
		if err := got(a); err != nil {
			return err
		}
	}
}

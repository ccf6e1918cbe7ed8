package host

import (
	"context"
	"net/http"
	"net/url"

	"github.com/openberth/berth/fault"
)

// PlannedMove is the move that would take a server off its host now.
type PlannedMove struct {
	Server string `json:"server"` // its id
	Name   string `json:"name"`
	Action string `json:"action,omitempty"` // live or cold; absent: the server cannot be moved
	To     string `json:"to,omitempty"`     // the host that would be tried first
	Reason string `json:"reason,omitempty"` // why the server cannot be moved or why not live, or what its guest loses
	Note   string `json:"note,omitempty"`   // what the move does besides: which ports it creates
}

// Kinds of planned moves.
const (
	MoveLive = "live"
	MoveCold = "cold"
)

// PlanDrain returns for each server on a host where it would move if the host were drained now; with the address of a
// device, only for the servers that have the device, or a VF of it. It changes nothing. It returns fault.NotFound if no
// agent has reported for the host, or if the host has no such device.
func (c Client) PlanDrain(ctx context.Context, name, device string) ([]PlannedMove, error) {
	q := url.Values{}
	if device != "" {
		q.Set("device", device)
	}
	return c.plan(ctx, name, q)
}

// PlanMove returns where one server on a host would move if it were moved off the host now. It changes nothing. It
// returns fault.NotFound if no agent has reported for the host, or if the server, by id, is not there.
func (c Client) PlanMove(ctx context.Context, name, server string) (PlannedMove, error) {
	moves, err := c.plan(ctx, name, url.Values{"server": {server}})
	if err != nil {
		return PlannedMove{}, err
	}
	for _, one := range moves {
		if one.Server == server {
			return one, nil
		}
	}
	return PlannedMove{}, fault.New(fault.NotFound, "the server %s is not on host %s", server, name)
}

// plan returns the planned moves that a query selects.
func (c Client) plan(ctx context.Context, name string, q url.Values) ([]PlannedMove, error) {
	var out struct {
		Moves []PlannedMove `json:"moves"`
	}
	p := path(name, "drain")
	if len(q) > 0 {
		p += "?" + q.Encode()
	}
	_, err := c.REST.Do(ctx, http.MethodGet, p, nil, &out)
	return out.Moves, err
}

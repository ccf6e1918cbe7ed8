package host

import (
	"context"
	"net/http"
	"net/url"
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
	var out struct {
		Moves []PlannedMove `json:"moves"`
	}
	p := path(name, "drain")
	if device != "" {
		p += "?" + url.Values{"device": {device}}.Encode()
	}
	_, err := c.REST.Do(ctx, http.MethodGet, p, nil, &out)
	return out.Moves, err
}

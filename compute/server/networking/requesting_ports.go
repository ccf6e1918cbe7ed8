package networking

import (
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// This file is the rule of specification 004 about versions: operations with ports that have a resource request are
// refused before 2.72, except the deletion of a server and the detachment of a port.

// movesPorts lists the actions that claim what the ports of a server request on another host.
var movesPorts = []lifecycle.Action{lifecycle.Resize, lifecycle.Migrate, lifecycle.Live, lifecycle.Evacuate,
	lifecycle.Unshelve}

// refusesRequests reports whether the version of a call is too old for ports with a resource request.
func refusesRequests(s *Handlers, c *request.Call) bool {
	return !s.PortsAtAnyVersion && !c.Has(compute.PortsWithRequest)
}

// CheckMove returns fault.Invalid if an action moves ports with a resource request and the version is too old.
func CheckMove(s *Handlers, c *request.Call, key string, action lifecycle.Action, found lifecycle.Server) error {
	if !refusesRequests(s, c) || !slices.Contains(movesPorts, action) {
		return nil
	}
	for _, p := range found.Ports {
		if len(p.Groups) > 0 {
			return tooOld("The action "+key+" on a server with ports", "port "+p.ID)
		}
	}
	return nil
}

// NewFinder returns what finds the networks and ports of a request. what names the operation.
func NewFinder(s *Handlers, c *request.Call, what string) NetworkFinder {
	if !refusesRequests(s, c) {
		what = ""
	}
	return NetworkFinder{Networks: s.Networks, refused: what, amounts: map[string]resource.Amounts{}}
}

// checkPort returns fault.Invalid for a port with a resource request if the version is too old.
func (s NetworkFinder) checkPort(p network.Port) error {
	if s.refused == "" || p.Request == nil || len(p.Request.Groups) == 0 {
		return nil
	}
	return tooOld(s.refused, "port "+p.ID)
}

// checkPolicy is checkPort for the port that is created in a network: it gets the rules of the network's policy.
func (s NetworkFinder) checkPolicy(c *request.Call, n network.Network) error {
	if s.refused == "" || n.Policy == "" {
		return nil
	}
	list, err := s.Networks.Policies(c.R.Context(), url.Values{"id": {n.Policy}})
	if err != nil {
		return err
	}
	for _, p := range list {
		if slices.ContainsFunc(p.Rules, func(r network.Rule) bool { return r.MinKbps > 0 || r.MinKpps > 0 }) {
			return tooOld(s.refused, "a new port of network "+n.ID)
		}
	}
	return nil
}

// tooOld returns the fault of an operation whose version is too old for the resource request of a port.
func tooOld(what, port string) error {
	return fault.New(fault.Invalid,
		"%s that have a resource request, such as that of a QoS minimum bandwidth rule, is "+
			"not supported before microversion %s: %s has one; send the header %s: %s %s", what,
		compute.PortsWithRequest,
		port, compute.VersionHeader, compute.Service, compute.PortsWithRequest)
}

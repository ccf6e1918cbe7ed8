package servers

import (
	"context"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// place is where a new server, or one that is unshelved, is requested to be.
type place struct {
	zone       string // empty: any
	host, node string // empty: any
	requested  bool   // by the keys host and hypervisor_hostname (2.74)
}

// readPlace reads availability_zone, which is ZONE, ZONE:HOST, ZONE:HOST:NODE or ZONE::NODE, and since 2.74 host and
// hypervisor_hostname.
func readPlace(c *request.Call, o *edge.Object) (p place) {
	text := ""
	o.Text("availability_zone", &text, 255)
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		o.Invalid("availability_zone",
			"Unable to parse availability_zone %q; write it as ZONE, ZONE:HOST or ZONE:HOST:NODE",
			edge.Clip(text))
	}
	p.zone = parts[0]
	for i, into := range []*string{&p.host, &p.node} {
		if len(parts) > i+1 {
			*into = parts[i+1]
		}
	}
	if c.Has(compute.HostAtCreation) {
		if forced := p.host + p.node; forced != "" && (o.Has("host") || o.Has("hypervisor_hostname")) {
			o.Invalid("host", "the host is in availability_zone already")
		}
		p.requested = o.Text("host", &p.host, 255)
		p.requested = o.Text("hypervisor_hostname", &p.node, 255) || p.requested
	}
	return p
}

// where resolves a requested place: the zone exists, and the caller may choose a host, which exists and is in the zone.
// It returns the zone and the only permitted host; empty: any.
func where(s *Handlers, c *request.Call, p place) (zone, host string, err error) {
	of, err := s.Zones(c.R.Context())
	if err != nil {
		return "", "", err
	}
	if p.host+p.node != "" {
		rule := policies.CreateOnHost
		if p.requested {
			rule = policies.CreateOnTarget
		}
		if err := c.Authorize(rule, c.Owner()); err != nil {
			return "", "", err
		}
		if host, err = onlyHost(c.R.Context(), s, p); err != nil {
			return "", "", err
		}
	}
	if p.zone == "" {
		return s.ScheduleZone, host, nil
	}
	if err := checkZone(c.R.Context(), s, of, p.zone); err != nil {
		return "", "", err
	}
	if host != "" && of.Zone(host) != p.zone {
		return "", "", fault.New(fault.Invalid, "Host %s is in the availability zone %s, not in %s", host,
			of.Zone(host),
			edge.Clip(p.zone))
	}
	return p.zone, host, nil
}

// onlyHost returns the host that is named by its name or as its node, which has the same name.
func onlyHost(ctx context.Context, s *Handlers, p place) (string, error) {
	host := p.host
	if host == "" {
		host = p.node
	}
	if p.node != "" && p.node != host {
		return "", fault.New(fault.Invalid, "Compute host %s has no node %s; the node of a host has its name", host,
			p.node)
	}
	_, err := s.Store.Host(ctx, host)
	if fault.Is(err, fault.NotFound) || err == nil && provider.CheckHostName(host) != nil {
		return "", fault.New(fault.Invalid, "Compute host %s could not be found.", edge.Clip(host))
	}
	return host, err
}

// checkZone returns fault.Invalid for a zone that no host is in.
func checkZone(ctx context.Context, s *Handlers, of schedule.Aggregates, zone string) error {
	names, err := s.HostNames(ctx)
	if err != nil || zone == of.DefaultZone {
		return err
	}
	for _, name := range names {
		if of.Zone(name) == zone {
			return nil
		}
	}
	return fault.New(fault.Invalid, "The requested availability zone is not available: no host is in zone %s",
		edge.Clip(zone))
}

// ReadUnshelved reads the zone and the host of an unshelved server: availability_zone since 2.77, host since 2.91. With
// null for the zone, the server may be in any zone.
func ReadUnshelved(s *Handlers, c *request.Call, o *edge.Object, found lifecycle.Server,
	w *lifecycle.ActionRequested) error {
	if !c.Has(compute.UnshelveZone) {
		return nil
	}
	p, given := place{zone: found.Zone, requested: true}, o.Has("availability_zone")
	switch {
	case given && edge.IsNull(o.Keys["availability_zone"]):
		delete(o.Keys, "availability_zone")
		if w.Zone = new(string); !c.Has(compute.UnshelveHost) {
			o.Invalid("availability_zone", "it is null; give the name of a zone")
		}
		p.zone = ""
	case given:
		o.Require("availability_zone")
		o.Text("availability_zone", &p.zone, 255)
		w.Zone = &p.zone
	}
	if c.Has(compute.UnshelveHost) {
		o.Text("host", &p.host, 255)
	}
	if o.Err() != nil || p.zone == "" && p.host == "" {
		return o.Err()
	}
	if given && found.Status() != "SHELVED_OFFLOADED" {
		return fault.New(fault.Conflict,
			"The server is not SHELVED_OFFLOADED; only then can its availability zone change")
	}
	return unshelveTo(s, c, p, w)
}

// unshelveTo sets the zone and the host of an unshelved server.
func unshelveTo(s *Handlers, c *request.Call, p place, w *lifecycle.ActionRequested) (err error) {
	of, err := s.Zones(c.R.Context())
	if err != nil {
		return err
	}
	if p.host != "" {
		if err := c.Authorize(policies.UnshelveToHost, c.Owner()); err != nil {
			return err
		}
		if w.To, err = onlyHost(c.R.Context(), s, p); err != nil {
			return err
		}
	}
	if p.zone == "" {
		return nil
	}
	if w.To != "" && of.Zone(w.To) != p.zone {
		return fault.New(fault.Invalid, "Host %s is in the availability zone %s, not in %s", w.To, of.Zone(w.To),
			edge.Clip(p.zone))
	}
	return checkZone(c.R.Context(), s, of, p.zone)
}

// readPin reads pinned_availability_zone (2.104): the zone that the server must not leave; empty for null, which
// permits all. It returns nil if the key is not given.
func readPin(c *request.Call, o *edge.Object) *string {
	if !c.Has(compute.PinZone) || !o.Has("pinned_availability_zone") {
		return nil
	}
	zone := ""
	if edge.IsNull(o.Keys["pinned_availability_zone"]) {
		delete(o.Keys, "pinned_availability_zone")
		return &zone
	}
	if o.Text("pinned_availability_zone", &zone, 255) && zone == "" {
		o.Invalid("pinned_availability_zone", "it is empty; give the zone of the server or null")
	}
	return &zone
}

// checkPin returns fault.Conflict unless a server may be pinned to a zone: it is the one that it is in, and the server
// is not pinned to another one. An empty zone is always permitted.
func checkPin(now lifecycle.Server, zone string) error {
	switch {
	case zone == "" || zone == now.Zone:
	case now.Zone != "":
		return fault.New(fault.Conflict,
			"the server is pinned to the availability zone %s; set pinned_availability_zone "+
				"to null first", now.Zone)
	case zone != now.HostZone:
		return fault.New(fault.Conflict,
			"the server is in the availability zone %s and can be pinned to no other one; "+
				"it is %s", now.HostZone, edge.Clip(zone))
	}
	return nil
}

package operator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// noImageCache is why aggregates do not fetch images.
const noImageCache = "hosts cannot be told to fetch images; each fetches the image of a server that it builds"

// aggregates are the handlers of host aggregates.
type aggregates struct{ *Handlers }

// aggregateRoutes returns the paths of host aggregates.
func aggregateRoutes(h *Handlers) request.Routes {
	s := aggregates{h}
	return request.Routes{
		"/v2.1/os-aggregates": {
			http.MethodGet:  request.Guarded(policies.ListAggregates, s.list),
			http.MethodPost: request.Guarded(policies.CreateAggregate, s.create),
		},
		"/v2.1/os-aggregates/{id}": {
			http.MethodGet:    request.Guarded(policies.ShowAggregate, s.show),
			http.MethodPut:    request.Guarded(policies.UpdateAggregate, s.update),
			http.MethodDelete: request.Guarded(policies.DeleteAggregate, s.remove),
		},
		"/v2.1/os-aggregates/{id}/action": {
			http.MethodPost: request.Guarded(policies.AddAggregateHost, s.act),
		},
		"/v2.1/os-aggregates/{id}/images": {
			http.MethodPost: request.Since(compute.AggregateImages,
				request.Guarded(policies.CacheAggregateImages, request.Refused(noImageCache))),
		},
	}
}

// aggregateID returns the id of the path; fault.Invalid for one that is not a number.
func aggregateID(c *request.Call) (int64, error) {
	text := c.R.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fault.New(fault.Invalid, "Invalid input received: id must be an integer; it is %q", edge.Clip(text))
	}
	return id, nil
}

// aggregateView returns the view of an aggregate at the version of the call. That of a new one has neither hosts nor
// metadata, as in Nova.
func aggregateView(c *request.Call, a store.Aggregate, created bool) compute.Aggregate {
	v := compute.Aggregate{ID: a.ID, Name: a.Name, Zone: request.OrNull(a.Zone()), Created: request.Micros(a.Created),
		Updated: request.MicrosOrNull(a.Updated)}
	if !created {
		v.AggregateContent = &compute.AggregateContent{Hosts: append([]string{}, a.Hosts...), Metadata: a.Metadata}
	}
	if c.Has(compute.AggregateUUID) {
		v.UUID = a.UUID
	}
	return v
}

func write(c *request.Call, a store.Aggregate, created bool) error {
	return c.WriteJSON(http.StatusOK, map[string]any{"aggregate": aggregateView(c, a, created)})
}

func (s aggregates) list(c *request.Call) error {
	all, err := s.Store.Aggregates(c.R.Context())
	if err != nil {
		return err
	}
	list := make([]compute.Aggregate, 0, len(all))
	for _, a := range all {
		list = append(list, aggregateView(c, a, false))
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"aggregates": list})
}

func (s aggregates) show(c *request.Call) error {
	id, err := aggregateID(c)
	if err != nil {
		return err
	}
	all, err := s.Store.Aggregates(c.R.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(a store.Aggregate) bool { return a.ID == id })
	if i < 0 {
		return fault.New(fault.NotFound, "Aggregate %d could not be found.", id)
	}
	return write(c, all[i], false)
}

// readAggregate reads the name and the zone of the body.
func readAggregate(c *request.Call, named bool) (name, zone string, err error) {
	o, others, err := c.Object("aggregate")
	if err == nil {
		err = c.RefuseOthers("aggregate", others)
	}
	if err != nil {
		return "", "", err
	}
	if !named && !o.Has("name") && !o.Has("availability_zone") {
		o.Invalid("name", "it is missing; give name or availability_zone")
	}
	if named || o.Has("name") {
		name = request.NameText(o, "name")
	}
	if o.Text("availability_zone", &zone, 255) && (zone == "" || slices.Contains([]byte(zone), ':')) {
		o.Invalid("availability_zone", "it is %q; a zone has a name without colons", edge.Clip(zone))
	}
	return name, zone, o.Finish()
}

func (s aggregates) create(c *request.Call) error {
	name, zone, err := readAggregate(c, true)
	if err != nil {
		return err
	}
	a := store.Aggregate{UUID: store.NewAggregateUUID(), Name: name, Created: s.Now(), Metadata: map[string]string{}}
	if zone != "" {
		a.Metadata[schedule.ZoneKey] = zone
	}
	if a, err = s.Store.CreateAggregate(c.R.Context(), a); err != nil {
		return err
	}
	return write(c, a, true)
}

// change changes an aggregate and responds with it. Placement gets the change afterwards.
func (s aggregates) change(c *request.Call,
	change func(a *store.Aggregate, all []store.Aggregate, servers map[string]int) error) error {
	id, err := aggregateID(c)
	if err != nil {
		return err
	}
	a, err := s.Store.ChangeAggregate(c.R.Context(), id, s.Now(), change)
	if err != nil {
		return err
	}
	s.Conductor.MirrorAggregates()
	return write(c, a, false)
}

// update is PUT /v2.1/os-aggregates/{id}: it changes the name and the zone. Nova's rule is
// os_compute_api:os-aggregates:update.
func (s aggregates) update(c *request.Call) error {
	name, zone, err := readAggregate(c, false)
	if err != nil {
		return err
	}
	return s.change(c, func(a *store.Aggregate, all []store.Aggregate, servers map[string]int) error {
		if name != "" {
			a.Name = name
		}
		if zone == "" || zone == a.Zone() {
			return nil
		}
		a.Metadata[schedule.ZoneKey] = zone
		return invalidChange(checkZone(*a, all, a.Hosts, servers), "update", a.ID)
	})
}

// invalidChange returns fault.Invalid (400) with Nova's sentence for a reason; nil for none.
func invalidChange(reason, what string, id int64) error {
	if reason == "" {
		return nil
	}
	return fault.New(fault.Invalid, "Cannot %s aggregate %d. Reason: %s.", what, id, reason)
}

// checkZone returns why the hosts of an aggregate cannot be in its zone: one is in another zone by another aggregate,
// or has servers, which do not change their zone.
func checkZone(a store.Aggregate, all []store.Aggregate, hosts []string, servers map[string]int) string {
	for _, other := range all {
		if other.ID == a.ID || other.Zone() == "" || a.Zone() == "" || other.Zone() == a.Zone() {
			continue
		}
		for _, host := range hosts {
			if slices.Contains(other.Hosts, host) {
				return "One or more hosts already in availability zone(s) " + other.Zone()
			}
		}
	}
	for _, host := range hosts {
		if was, is := zoneOf(all, host, 0), zoneOf(all, host, a.ID); servers[host] > 0 && was != a.Zone() && is != a.Zone() {
			return "One or more hosts contain instances in this zone"
		}
	}
	return ""
}

// zoneOf returns the zone of a host by all aggregates but one; empty: none.
func zoneOf(all []store.Aggregate, host string, except int64) string {
	for _, a := range all {
		if a.ID != except && a.Zone() != "" && slices.Contains(a.Hosts, host) {
			return a.Zone()
		}
	}
	return ""
}

func (s aggregates) remove(c *request.Call) error {
	id, err := aggregateID(c)
	if err == nil {
		err = s.Store.DeleteAggregate(c.R.Context(), id)
	}
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusOK)
}

// act is POST /v2.1/os-aggregates/{id}/action: add_host, remove_host or set_metadata. Nova's rules are
// os_compute_api:os-aggregates:add_host, remove_host and set_metadata.
func (s aggregates) act(c *request.Call) error {
	var body map[string]json.RawMessage
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
		return err
	}
	for action, rule := range map[string]string{"add_host": "", "remove_host": policies.RemoveAggregateHost,
		"set_metadata": policies.SetAggregateMetadata} {
		raw, given := body[action]
		if !given || len(body) != 1 {
			continue
		}
		if err := c.Authorize(rule, c.Owner()); err != nil {
			return err
		}
		var keys map[string]json.RawMessage
		if json.Unmarshal(raw, &keys) != nil || keys == nil {
			return c.NoObject(action)
		}
		o := c.NewObject(action, keys)
		if action == "set_metadata" {
			return s.setMetadata(c, o)
		}
		return s.changeHost(c, o, action == "add_host")
	}
	return fault.New(fault.Invalid, "There is no such action; use add_host, remove_host or set_metadata")
}

// setMetadata changes metadata; a value of null removes a key.
func (s aggregates) setMetadata(c *request.Call, o *edge.Object) error {
	var set map[string]*string
	o.Require("metadata")
	o.Decode("metadata", &set, "an object of texts or null")
	for key, value := range set {
		if key == "" || utf8.RuneCountInString(key) > 255 || value != nil && utf8.RuneCountInString(*value) > 255 {
			o.Invalid("metadata", "key and value of %q must have at most 255 characters, the key at least 1",
				edge.Clip(key))
		}
	}
	if err := o.Finish(); err != nil {
		return err
	}
	return s.change(c, func(a *store.Aggregate, all []store.Aggregate, servers map[string]int) error {
		before := a.Zone()
		for key, value := range set {
			if delete(a.Metadata, key); value != nil {
				a.Metadata[key] = *value
			}
		}
		if zone, given := set[schedule.ZoneKey]; given && (zone == nil || *zone == "") {
			return invalidChange("Aggregate "+a.Name+" does not support empty named availability zone",
				"update metadata of", a.ID)
		}
		if a.Zone() == before {
			return nil
		}
		return invalidChange(checkZone(*a, all, a.Hosts, servers), "update metadata of", a.ID)
	})
}

// changeHost adds a host to an aggregate, or removes it.
func (s aggregates) changeHost(c *request.Call, o *edge.Object, add bool) error {
	name := ""
	o.Require("host")
	o.Text("host", &name, 255)
	if err := o.Finish(); err != nil {
		return err
	}
	if add {
		if _, err := s.Store.Host(c.R.Context(), name); fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "Compute host %s could not be found.", name)
		} else if err != nil {
			return err
		}
	}
	return s.change(c, func(a *store.Aggregate, all []store.Aggregate, servers map[string]int) error {
		has := slices.Contains(a.Hosts, name)
		switch {
		case add && has:
			return fault.New(fault.Conflict, "Aggregate %d already has host %s.", a.ID, name)
		case !add && !has:
			return fault.New(fault.NotFound, "Cannot remove host %s in aggregate %d", name, a.ID)
		case add:
			if reason := checkZone(*a, all, []string{name}, servers); reason != "" && a.Zone() != "" {
				return fault.New(fault.Conflict, "Cannot add host to aggregate %d. Reason: %s.", a.ID, reason)
			}
			a.Hosts = append(a.Hosts, name)
			slices.Sort(a.Hosts)
			return nil
		}
		if servers[name] > 0 && a.Zone() != "" && zoneOf(all, name, a.ID) != a.Zone() {
			return fault.New(fault.Conflict, "Cannot remove host from aggregate %d. Reason: the availability zone of host %s "+
				"would change, and it has %d instance(s); move them away first.", a.ID, name, servers[name])
		}
		a.Hosts = slices.DeleteFunc(a.Hosts, func(host string) bool { return host == name })
		return nil
	})
}

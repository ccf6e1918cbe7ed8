package server

import (
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// listMigrations is GET /v2.1/os-migrations.
func (s *server) listMigrations(c *call) error {
	q := c.r.URL.Query()
	limit, _, err := c.readPage(q)
	if err != nil {
		return err
	}
	name, err := hostFilter(q)
	if err != nil {
		return err
	}
	list, err := s.Store.Migrations(c.r.Context(), store.MigrationFilter{Server: q.Get("instance_uuid"),
		Status: q.Get("status"), Kind: q.Get("migration_type"), Host: name, Limit: max(limit, 1)})
	if err != nil {
		return err
	}
	views := make([]compute.Migration, 0, len(list))
	for _, m := range list {
		views = append(views, c.migration(m))
	}
	return c.writeJSON(http.StatusOK, map[string]any{"migrations": views})
}

// serverMigrations is GET /v2.1/servers/{id}/migrations (2.23): the migrations in progress.
func (s *server) serverMigrations(c *call) error {
	if !c.version.Has(compute.ServerMigrations) {
		return unknownPath(c)
	}
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	list, err := s.Store.Migrations(c.r.Context(), store.MigrationFilter{Server: found.ID})
	if err != nil {
		return err
	}
	views := []compute.Migration{}
	for _, m := range list {
		if found.Move != nil && found.Migration.ID == m.ID {
			v := c.migration(m)
			v.Server = found.ID
			views = append(views, v)
		}
	}
	return c.writeJSON(http.StatusOK, map[string]any{"migrations": views})
}

func (c *call) migration(m store.Migration) compute.Migration {
	v := compute.Migration{ID: m.Number, Instance: m.Server, Status: m.Status, SourceHost: orNull(m.From),
		SourceNode: orNull(m.From), DestHost: orNull(m.To), DestNode: orNull(m.To), OldFlavor: m.OldFlavor,
		NewFlavor: m.NewFlavor,
		Created:   compute.Time{Time: m.Begun}, Updated: compute.Time{Time: m.Updated}}
	if c.version.Has(compute.ServerMigrations) {
		v.Kind = string(m.Kind)
	}
	if c.version.Has(compute.MigrationUUID) {
		v.UUID = m.ID
	}
	return v
}

// listServices is GET /v2.1/os-services: the agents of hosts, as compute services.
func (s *server) listServices(c *call) error {
	q := c.r.URL.Query()
	name, err := hostFilter(q)
	if err != nil {
		return err
	}
	hosts, dead, err := s.hostsAndDead(c.r.Context())
	if err != nil {
		return err
	}
	list := []compute.ServiceDoc{}
	for i, h := range hosts {
		if name != "" && name != h.Name || q.Get("binary") != "" && q.Get("binary") != compute.Binary {
			continue
		}
		d := compute.ServiceDoc{ID: i + 1, Binary: compute.Binary, Host: h.Name, Zone: "nova", Status: "enabled", State: "up",
			Updated: orNull(h.Seen.UTC().Format("2006-01-02T15:04:05.000000"))}
		down := slices.Contains(dead, h.Name)
		if down || s.Conductor.SinceReport(h.Name) > silence {
			d.State = "down"
		}
		if c.version.Has(compute.ForceDown) {
			d.ForcedDown = &down
		}
		if c.version.Has(compute.ServiceUUID) {
			d.ID = serviceID(h.Name)
		}
		list = append(list, d)
	}
	return c.writeJSON(http.StatusOK, map[string]any{"services": list})
}

// forceDown is PUT /v2.1/os-services/force-down (2.11 to 2.52).
func (s *server) forceDown(c *call) error {
	if !c.version.Has(compute.ForceDown) || c.version.Has(compute.ServiceUUID) {
		return unknownPath(c)
	}
	var body struct {
		Host, Binary string
		Down         *bool `json:"forced_down"`
	}
	if err := c.read(maxBody, &body); err != nil {
		return err
	}
	if body.Host == "" || body.Binary != compute.Binary || body.Down == nil {
		return fault.New(fault.Invalid, "", "the body must have host, binary (%s) and forced_down", compute.Binary)
	}
	if err := provider.CheckHostName(body.Host); err != nil {
		return err
	}
	return s.setDown(c, body.Host, *body.Down)
}

// updateService is PUT /v2.1/os-services/{service} (2.53). It supports only forced_down.
func (s *server) updateService(c *call) error {
	if !c.version.Has(compute.ServiceUUID) {
		return unknownPath(c)
	}
	var body struct {
		Down   *bool  `json:"forced_down"`
		Status string `json:"status"`
	}
	if err := c.read(maxBody, &body); err != nil {
		return err
	}
	if body.Status != "" || body.Down == nil {
		return fault.New(fault.Invalid, "", "Berth can change only forced_down of a service; leave other keys out")
	}
	hosts, err := s.Store.Hosts(c.r.Context())
	if err != nil {
		return err
	}
	for _, h := range hosts {
		if serviceID(h.Name) == c.r.PathValue("service") {
			return s.setDown(c, h.Name, *body.Down)
		}
	}
	return fault.New(fault.NotFound, "", "Service %s could not be found.", c.r.PathValue("service"))
}

func (s *server) setDown(c *call, name string, down bool) error {
	h, err := s.Store.Host(c.r.Context(), name)
	if err != nil {
		return s.unknownHost(c.r.Context(), name, err)
	}
	change := s.Conductor.HostUp
	if down {
		change = s.Conductor.HostDown
	}
	if err := change(c.r.Context(), name); err != nil {
		return err
	}
	doc := compute.ServiceDoc{Binary: compute.Binary, Host: name, ForcedDown: &down}
	if c.version.Has(compute.ServiceUUID) {
		doc.ID, doc.Zone, doc.Status, doc.State = serviceID(name), "nova", "enabled", "up"
		doc.Updated = orNull(h.Seen.UTC().Format("2006-01-02T15:04:05.000000"))
		if down || s.Conductor.SinceReport(name) > silence {
			doc.State = "down"
		}
	}
	return c.writeJSON(http.StatusOK, map[string]any{"service": doc})
}

// forgetHost is DELETE /berth/v1/hosts/{host}: an operator removes a host that will never return. It responds with 409
// while the host may be alive, or has servers or allocations.
func (s *server) forgetHost(c *call) error {
	name := c.r.PathValue("host")
	removed, kept, err := s.Conductor.HostForget(c.r.Context(), name)
	if err != nil {
		return s.unknownHost(c.r.Context(), name, err)
	}
	return c.writeJSON(http.StatusOK, host.Forgotten{Removed: texts(removed), Kept: texts(kept)})
}

// serviceID returns the UUID of the compute service of a host (2.53). It is derived from the host name, so it never
// changes.
func serviceID(host string) string {
	return uuid.NewSHA1(uuid.NameSpaceDNS, []byte("nova-compute."+host)).String()
}

package server

import (
	"net/http"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// listServers is GET /v2.1/servers.
func (s *server) listServers(c *call) error {
	return s.servers(c, func(list []lifecycle.Server) (any, error) {
		refs := make([]compute.Ref, 0, len(list))
		for _, one := range list {
			refs = append(refs, compute.Ref{ID: one.ID, Name: one.Name, Links: c.links("servers", one.ID)})
		}
		return refs, nil
	})
}

// detailServers is GET /v2.1/servers/detail.
func (s *server) detailServers(c *call) error {
	return s.servers(c, func(list []lifecycle.Server) (any, error) {
		hosts, err := s.hostStates(c.r.Context(), c)
		if err != nil {
			return nil, err
		}
		views := make([]compute.Server, 0, len(list))
		for _, one := range list {
			views = append(views, c.server(one, hosts))
		}
		return views, nil
	})
}

func (s *server) servers(c *call, view func([]lifecycle.Server) (any, error)) error {
	q := c.r.URL.Query()
	limit, marker, err := c.readPage(q)
	if err != nil {
		return err
	}
	w, err := c.readServerQuery(q)
	if err != nil {
		return err
	}
	var found []lifecycle.Server
	if !w.none {
		w.filter.Marker = marker
		found, err = collect(limit, func(limit int, last *lifecycle.Server) ([]lifecycle.Server, error) {
			w.filter.Limit = limit
			if last != nil {
				w.filter.Marker = last.ID
			}
			return s.Store.Servers(c.r.Context(), w.filter)
		}, w.keeps)
		if err != nil {
			return err
		}
	}
	list, err := view(found)
	if err != nil {
		return err
	}
	body := map[string]any{"servers": list}
	if len(found) > 0 {
		if next := c.nextLinks(limit, len(found), found[len(found)-1].ID); next != nil {
			body["servers_links"] = next
		}
	}
	return c.writeJSON(http.StatusOK, body)
}

// serverQuery is the filter of a list of servers: the part that the database applies, and the part applied by keeps.
type serverQuery struct {
	filter      store.ServerFilter
	name        *regexp.Regexp // nil for any
	reservation string
	none        bool // no server can match the filter
}

func (w serverQuery) keeps(s lifecycle.Server) bool {
	if w.name != nil && !w.name.MatchString(s.Name) {
		return false
	}
	reservation, _ := reservationOf(s.ID)
	return w.reservation == "" || w.reservation == reservation
}

// unsupportedFilters are filters of the API that Berth does not implement. They are refused, because ignoring them
// would return the wrong servers.
var unsupportedFilters = []string{"ip", "ip6", "image", "tags", "tags-any", "not-tags", "not-tags-any",
	"changes-before", "locked", "key_name", "config_drive", "availability_zone", "vm_state", "task_state",
	"power_state", "uuid"}

// readServerQuery reads the filters of a list. As in OpenStack, it ignores filters for admins if the caller is not one.
func (c *call) readServerQuery(q url.Values) (w serverQuery, err error) {
	for _, key := range unsupportedFilters {
		if q.Get(key) != "" {
			return w, fault.New(fault.Invalid, "", "Berth does not support the filter %s of servers; leave it out", key)
		}
	}
	if key, dir := q.Get("sort_key"), q.Get("sort_dir"); key != "" && key != "created_at" || dir != "" && dir != "desc" {
		return w, fault.New(fault.Invalid, "", "Berth lists servers by created_at, newest first (desc), "+
			"and supports no other order; leave sort_key and sort_dir out")
	}
	w.filter = store.ServerFilter{Project: c.who.Project, Flavor: q.Get("flavor"), User: q.Get("user_id")}
	w.reservation = q.Get("reservation_id")
	if w.name, err = nameFilter(q.Get("name")); err != nil {
		return w, err
	}
	if w.name != nil {
		w.filter.Name = literal(w.name)
	}
	if text := q.Get("changes-since"); text != "" {
		if w.filter.Since, err = parseTime(text); err != nil {
			return w, err
		}
	}
	if err := c.readStatusFilter(&w, q.Get("status")); err != nil {
		return w, err
	}
	return w, c.readAdminFilters(&w, q)
}

func (c *call) readAdminFilters(w *serverQuery, q url.Values) error {
	all := false
	if q.Has("all_tenants") {
		value, known := parseBool(q.Get("all_tenants"))
		if !known && q.Get("all_tenants") != "" {
			return fault.New(fault.Invalid, "", "all_tenants must be true or false; it is %q", q.Get("all_tenants"))
		}
		all = value || !known
	}
	if !c.who.IsAdmin() {
		if all {
			return fault.New(fault.Forbidden, "", "all_tenants needs the role admin, which %s does not have",
				c.who.User)
		}
		return nil
	}
	name, err := hostFilter(q)
	if err != nil {
		return err
	}
	w.filter.Host = name
	if all {
		w.filter.Project = ""
	}
	for _, key := range []string{"project_id", "tenant_id"} {
		if project := q.Get(key); project != "" {
			w.filter.Project = project
		}
	}
	if text := q.Get("deleted"); text != "" {
		deleted, known := parseBool(text)
		if !known {
			return fault.New(fault.Invalid, "", "deleted must be true or false; it is %q", text)
		}
		w.filter.Deleted = w.filter.Deleted || deleted
	}
	return nil
}

// statuses are the statuses of the Compute API, and whether Berth's servers can have them.
var statuses = map[string]bool{"ACTIVE": true, "BUILD": true, "ERROR": true, "DELETED": true,
	"HARD_REBOOT": true, "MIGRATING": true, "PASSWORD": false, "PAUSED": false, "REBOOT": true, "REBUILD": true,
	"RESCUE": false, "RESIZE": true, "REVERT_RESIZE": true, "SHELVED": false, "SHELVED_OFFLOADED": true,
	"SHUTOFF": true, "SOFT_DELETED": false, "SUSPENDED": false, "UNKNOWN": false, "VERIFY_RESIZE": true}

func (c *call) readStatusFilter(w *serverQuery, text string) error {
	if text == "" {
		return nil
	}
	status := strings.ToUpper(text)
	ours, known := statuses[status]
	if !known && c.version.Has(compute.StatusChecked) {
		return fault.New(fault.Invalid, "", "%q is not a status of a server; ACTIVE, BUILD and ERROR are", text)
	}
	if status == "DELETED" && !c.who.IsAdmin() {
		return fault.New(fault.Forbidden, "", "only admins may list deleted servers")
	}
	w.filter.Status, w.none, w.filter.Deleted = status, !ours, status == "DELETED"
	return nil
}

// nameFilter reads the filter by name: a regular expression, which may match any part of the name.
func nameFilter(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "", "the filter name is not a valid regular expression: %w", err)
	}
	return re, nil
}

// literal returns a text that every match contains, for the query of the database; empty if none is found.
func literal(re *regexp.Regexp) string {
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return ""
	}
	return longestLiteral(tree.Simplify())
}

func longestLiteral(re *syntax.Regexp) string {
	best := ""
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			best = string(re.Rune)
		}
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		for _, sub := range re.Sub {
			if found := longestLiteral(sub); len(found) > len(best) {
				best = found
			}
		}
	}
	return best
}

func parseTime(text string) (time.Time, error) {
	layouts := []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02"}
	for _, layout := range layouts {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fault.New(fault.Invalid, "", "%q is not a valid time; write it as 2026-01-31T13:30:00Z", text)
}

// visibleServer reads the server of the path. It returns fault.NotFound if the caller may not see it, or if it is
// deleted and deleted is false.
func (s *server) visibleServer(c *call, deleted bool) (lifecycle.Server, error) {
	id := c.r.PathValue("id")
	found, err := s.Store.Read(c.r.Context(), id)
	hidden := err == nil && (found.Project != c.who.Project && !c.who.IsAdmin() || !found.Ended.IsZero() && !deleted)
	if hidden || fault.Is(err, fault.NotFound) {
		return lifecycle.Server{}, fault.New(fault.NotFound, "", "Instance %s could not be found.", id)
	}
	return found, err
}

// showServer is GET /v2.1/servers/{id}.
func (s *server) showServer(c *call) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	hosts, err := s.hostStates(c.r.Context(), c)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"server": c.server(found, hosts)})
}

// deleteServer is DELETE /v2.1/servers/{id}. It responds as soon as the request is recorded.
func (s *server) deleteServer(c *call) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	if err := s.Conductor.Delete(c.r.Context(), found.ID); err != nil {
		return err
	}
	return c.writeStatus(http.StatusNoContent)
}

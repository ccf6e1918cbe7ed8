package servers

import (
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// serverQuery is the filter of a list of servers: what the store applies, and what keep and tags apply.
type serverQuery struct {
	filter      store.ServerFilter
	name        *regexp.Regexp // nil for any
	tags        tagFilter
	reservation string
	none        bool // no server can match the filter
}

// keep returns the filters that need the id and the name of a server only; nil if there are none.
func (w serverQuery) keep() func(store.ServerRef) bool {
	if w.name == nil && w.reservation == "" {
		return nil
	}
	return func(ref store.ServerRef) bool {
		if w.name != nil && !w.name.MatchString(ref.Name) {
			return false
		}
		reservation, _ := lifecycle.Reservation(ref.ID)
		return w.reservation == "" || w.reservation == reservation
	}
}

// unsupportedFilters are filters of the API that Berth does not implement. They are refused, because ignoring them
// would return the wrong servers.
var unsupportedFilters = []string{"ip", "ip6", "image", "changes-before", "locked", "key_name", "config_drive",
	"availability_zone", "vm_state", "task_state",
	"power_state", "uuid"}

// readServerQuery reads the filters of a list. As in OpenStack, it ignores filters for admins if the caller is not one.
func readServerQuery(c *request.Call, q url.Values) (w serverQuery, err error) {
	for _, key := range unsupportedFilters {
		if q.Get(key) != "" {
			return w, fault.New(fault.Invalid, "Berth does not support the filter %s of servers; leave it out", key)
		}
	}
	if key, dir := q.Get("sort_key"), q.Get("sort_dir"); key != "" && key != "created_at" || dir != "" && dir != "desc" {
		return w, fault.New(fault.Invalid, "Berth lists servers by created_at, newest first (desc), "+
			"and supports no other order; leave sort_key and sort_dir out")
	}
	w.filter = store.ServerFilter{Project: c.Who.Project, Flavor: q.Get("flavor"), User: q.Get("user_id")}
	if c.Has(compute.Tags) {
		w.tags = readTagFilter(q)
	}
	w.reservation = q.Get("reservation_id")
	if w.name, err = nameFilter(q.Get("name")); err != nil {
		return w, err
	}
	if w.name != nil {
		w.filter.Name = literal(w.name)
	}
	if text := q.Get("changes-since"); text != "" {
		if w.filter.Since, err = request.ParseTime(text); err != nil {
			return w, err
		}
	}
	if err := readStatusFilter(c, &w, q.Get("status")); err != nil {
		return w, err
	}
	return w, readAdminFilters(c, &w, q)
}

func readAdminFilters(c *request.Call, w *serverQuery, q url.Values) error {
	all := false
	if q.Has("all_tenants") {
		value, known := request.Style.Bool(q.Get("all_tenants"))
		if !known && q.Get("all_tenants") != "" {
			return fault.New(fault.Invalid, "all_tenants must be true or false; it is %q", q.Get("all_tenants"))
		}
		all = value || !known
	}
	if all {
		rule := policies.ListServersOfAll
		if c.Spec.Rule == policies.DetailServers {
			rule = policies.DetailServersOfAll
		}
		if err := c.Authorize(rule, c.Owner()); err != nil {
			return err
		}
		w.filter.Project = ""
	}
	if !c.Who.IsAdmin() {
		return nil
	}
	name, err := request.HostFilter(q)
	if err != nil {
		return err
	}
	w.filter.Host = name
	for _, key := range []string{"project_id", "tenant_id"} {
		if project := q.Get(key); project != "" {
			w.filter.Project = project
		}
	}
	if text := q.Get("deleted"); text != "" {
		deleted, known := request.Style.Bool(text)
		if !known {
			return fault.New(fault.Invalid, "deleted must be true or false; it is %q", text)
		}
		w.filter.Deleted = w.filter.Deleted || deleted
	}
	return nil
}

// statuses are the statuses of the Compute API, and whether Berth's servers can have them.
var statuses = map[string]bool{"ACTIVE": true, "BUILD": true, "ERROR": true, "DELETED": true,
	"HARD_REBOOT": true, "MIGRATING": true, "PASSWORD": false, "PAUSED": false, "REBOOT": true, "REBUILD": true,
	"RESCUE": false, "RESIZE": true, "REVERT_RESIZE": true, "SHELVED": true, "SHELVED_OFFLOADED": true,
	"SHUTOFF": true, "SOFT_DELETED": false, "SUSPENDED": false, "UNKNOWN": false, "VERIFY_RESIZE": true}

func readStatusFilter(c *request.Call, w *serverQuery, text string) error {
	if text == "" {
		return nil
	}
	status := strings.ToUpper(text)
	ours, known := statuses[status]
	if !known && c.Has(compute.StatusChecked) {
		return fault.New(fault.Invalid, "%q is not a status of a server; ACTIVE, BUILD and ERROR are", text)
	}
	if status == "DELETED" && !c.Who.IsAdmin() {
		return fault.New(fault.Forbidden, "only admins may list deleted servers")
	}
	w.filter.Status, w.none, w.filter.Deleted = status, !ours, status == "DELETED"
	return nil
}

// maxNameFilter is the length of the longest regular expression for names, in characters. Names have at most 255, and a
// database refuses patterns that are much longer.
const maxNameFilter = 1024

// nameFilter reads the filter by name: a regular expression, which may match any part of the name.
func nameFilter(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if n := utf8.RuneCountInString(text); n > maxNameFilter {
		return nil, fault.New(fault.Invalid, "the filter name has %d characters; at most %d are allowed", n,
			maxNameFilter)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the filter name is not a valid regular expression: %w", err)
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

// tagFilter is the part of a list's filter that concerns tags (2.26). Nil: not given.
type tagFilter struct{ all, any, notAll, notAny []string }

func readTagFilter(q url.Values) (f tagFilter) {
	for key, into := range map[string]*[]string{"tags": &f.all, "tags-any": &f.any, "not-tags": &f.notAll,
		"not-tags-any": &f.notAny} {
		if text := q.Get(key); text != "" {
			*into = strings.Split(text, ",")
		}
	}
	return f
}

// isEmpty reports whether every server passes the filter.
func (f tagFilter) isEmpty() bool {
	return f.all == nil && f.any == nil && f.notAll == nil && f.notAny == nil
}

// keeps reports whether a server with these tags passes the filter.
func (f tagFilter) keeps(tags []string) bool {
	has := func(tag string) bool { return slices.Contains(tags, tag) }
	hasNot := func(tag string) bool { return !has(tag) }
	return !slices.ContainsFunc(f.all, hasNot) &&
		(f.any == nil || slices.ContainsFunc(f.any, has)) &&
		(f.notAll == nil || slices.ContainsFunc(f.notAll, hasNot)) &&
		!slices.ContainsFunc(f.notAny, has)
}

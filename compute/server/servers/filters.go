package servers

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// serverQuery is the filter of a list of servers: what the store applies, and what is applied to its rows and records.
type serverQuery struct {
	filter      store.ServerFilter
	name        *regexp.Regexp // nil for any
	reservation *regexp.Regexp // nil for any
	records     []func(lifecycle.Server) bool
	order       []sortKey // nil: that of the store
	none        bool      // no server can match the filter
}

// keep returns the filters that need the id and the name of a server only; nil if there are none.
func (w serverQuery) keep() func(store.ServerRef) bool {
	if w.name == nil && w.reservation == nil {
		return nil
	}
	return func(ref store.ServerRef) bool {
		if w.name != nil && !w.name.MatchString(ref.Name) {
			return false
		}
		reservation, _ := lifecycle.Reservation(ref.ID)
		return w.reservation == nil || w.reservation.MatchString(reservation)
	}
}

// matches reports whether a server passes the filters that need its record.
func (w serverQuery) matches(s lifecycle.Server) bool {
	return !slices.ContainsFunc(w.records, func(passes func(lifecycle.Server) bool) bool { return !passes(s) })
}

// patternFilters are the filters that are regular expressions, and the attributes that they match.
var patternFilters = map[string]string{"launch_index": "launch_index", "kernel_id": "kernel_id",
	"ramdisk_id": "ramdisk_id", "hostname": "hostname", "key_name": "key_name", "power_state": "power_state",
	"node": "node", "launched_at": "launched_at", "terminated_at": "terminated_at", "created_at": "created_at",
	"availability_zone": "availability_zone", "description": "display_description",
	"display_description": "display_description", "locked_by": "locked_by", "root_device_name": "root_device_name",
	"access_ip_v4": "access_ip_v4", "access_ip_v6": "access_ip_v6", "auto_disk_config": "auto_disk_config",
	"progress": "progress"}

// exactFilters are the filters that are compared, and the attributes that they are compared with.
var exactFilters = map[string]string{"image": "image_ref", "image_ref": "image_ref", "vm_state": "vm_state",
	"task_state": "task_state", "uuid": "uuid"}

// otherParameters are the parameters of a list beside patternFilters and exactFilters.
var otherParameters = []string{"user_id", "project_id", "tenant_id", "host", "flavor", "reservation_id", "name",
	"display_name", "config_drive", "sort_key", "sort_dir", "all_tenants", "soft_deleted", "deleted", "status",
	"changes-since", "ip", "ip6", "limit", "marker"}

// tagFilters are the filters by tags (2.26).
var tagFilters = []string{"tags", "tags-any", "not-tags", "not-tags-any"}

// internalFilters are names of attributes that Nova refuses as filters.
var internalFilters = []string{"block_device_mapping", "services", "metadata", "system_metadata", "info_cache",
	"security_groups", "pci_devices"}

// userFilters are the filters of callers without the rule allow_all_filters; filtersForUsers are more since 2.83.
var (
	userFilters = []string{"reservation_id", "name", "status", "image", "flavor", "ip", "changes-since", "all_tenants",
		"limit", "marker", "sort_key", "sort_dir"}
	filtersForUsers = []string{"availability_zone", "config_drive", "key_name", "created_at", "launched_at",
		"terminated_at", "power_state", "task_state", "vm_state", "progress", "user_id"}
)

// parameters returns the parameters of a query that the Compute API knows at the version of the call and that the
// caller may use; others are ignored. It returns fault.Invalid for unknown ones since 2.75, and for internal names.
func parameters(c *request.Call) (url.Values, error) {
	known := slices.Concat(otherParameters, slices.Collect(maps.Keys(patternFilters)),
		slices.Collect(maps.Keys(exactFilters)))
	allowed := slices.Clone(userFilters)
	for _, more := range []struct {
		since   compute.Version
		all     []string
		forUser []string
	}{
		{compute.Tags, tagFilters, tagFilters},
		{compute.ChangesBefore, []string{"changes-before"}, []string{"changes-before"}},
		{compute.LockReason, []string{"locked"}, []string{"locked"}},
		{ip6ForUsers, nil, []string{"ip6"}},
		{compute.FiltersForUsers, nil, filtersForUsers},
		{compute.Hostname, nil, []string{"hostname"}},
	} {
		if c.Has(more.since) {
			known, allowed = append(known, more.all...), append(allowed, more.forUser...)
		}
	}
	q := c.R.URL.Query()
	if c.Has(compute.StrictRequests) {
		if err := request.CheckQuery(q, append(known, internalFilters...)...); err != nil {
			return nil, err
		}
	}
	all, _ := c.Allowed(policies.AllFilters, c.Owner())
	for key := range q {
		switch internal := slices.Contains(internalFilters, key) || strings.HasPrefix(key, "_"); {
		case internal && all:
			return nil, fault.New(fault.Invalid, "Invalid filter field: %s.", edge.Clip(key))
		case !slices.Contains(known, key), !all && !slices.Contains(allowed, key):
			delete(q, key)
		}
	}
	return q, nil
}

// ip6ForUsers is the version since which all callers may filter by ip6.
const ip6ForUsers compute.Version = 5

// readServerQuery reads the filters of a list and its order. As in OpenStack, it ignores filters that the caller may
// not use.
func readServerQuery(c *request.Call) (w serverQuery, err error) {
	q, err := parameters(c)
	if err != nil {
		return w, err
	}
	w.filter = store.ServerFilter{Project: c.Who.Project, Flavor: last(q, "flavor"), User: last(q, "user_id")}
	if w.order, err = readOrder(c, q); err != nil {
		return w, err
	}
	if tags := readTagFilter(q); !tags.isEmpty() {
		w.records = append(w.records, func(s lifecycle.Server) bool { return tags.keeps(s.Tags) })
	}
	if w.reservation, err = pattern("reservation_id", last(q, "reservation_id")); err != nil {
		return w, err
	}
	if w.name, err = nameFilter(cmp.Or(last(q, "name"), last(q, "display_name"))); err != nil {
		return w, err
	}
	if w.name != nil {
		w.filter.Name = literal(w.name)
	}
	if w.filter.Since, w.filter.Before, err = request.ChangesBetween(c, q); err != nil {
		return w, err
	}
	if err := addRecordFilters(&w, q); err != nil {
		return w, err
	}
	if err := readStatusFilter(c, &w, q["status"]); err != nil {
		return w, err
	}
	return w, readAdminFilters(c, &w, q)
}

// last returns the last value of a parameter, which counts if it is given several times; empty: none.
func last(q url.Values, key string) string {
	if values := q[key]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// maxPattern is the largest number of bytes of a filter that is a regular expression: a short text compiles to a large
// program.
const maxPattern = 255

// maxInstructions is the size of the largest regular expression, in instructions of its program. Matching a name takes
// as many steps for each character: (.?){1000} has few characters, and 3,000 instructions.
const maxInstructions = 5000

// compile compiles the regular expression of a filter.
func compile(key, text string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the filter %s is not a valid regular expression: %w", key, err)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	if n := len(program.Inst); n > maxInstructions {
		return nil, fault.New(fault.Invalid, "the filter %s repeats too much: it has %d steps, and may have %d", key, n,
			maxInstructions)
	}
	return re, nil
}

// pattern compiles the regular expression of a filter; nil: it is empty.
func pattern(key, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxPattern {
		return nil, fault.New(fault.Invalid, "the filter %s has %d bytes, and may have %d", key, len(text), maxPattern)
	}
	return compile(key, text)
}

// addRecordFilters adds the filters that need the records of servers.
func addRecordFilters(w *serverQuery, q url.Values) error {
	for key, name := range exactFilters {
		if want := last(q, key); want != "" {
			w.records = append(w.records, func(s lifecycle.Server) bool { return serverFields[name](s) == want })
		}
	}
	for key, name := range patternFilters {
		text := last(q, key)
		if at, err := request.ParseTime(text); err == nil { // Nova's times have no zone
			text = "^" + regexp.QuoteMeta(at.UTC().Format("2006-01-02 15:04:05"))
		}
		re, err := pattern(key, text)
		if err != nil {
			return err
		}
		if re != nil {
			w.records = append(w.records, func(s lifecycle.Server) bool { return re.MatchString(serverFields[name](s)) })
		}
	}
	for _, key := range []string{"config_drive", "locked"} {
		if text := last(q, key); text != "" {
			want, known := request.Style.Bool(text)
			if !known {
				return fault.New(fault.Invalid, "%s must be true or false; it is %q", key, edge.Clip(text))
			}
			w.records = append(w.records, func(s lifecycle.Server) bool {
				has, _ := request.Style.Bool(serverFields[key](s))
				return has == want
			})
		}
	}
	return addAddressFilters(w, q)
}

// addAddressFilters adds ip and ip6. A server that has an address of either passes.
func addAddressFilters(w *serverQuery, q url.Values) error {
	four, err := pattern("ip", last(q, "ip"))
	if err != nil {
		return err
	}
	six, err := pattern("ip6", last(q, "ip6"))
	if err != nil || four == nil && six == nil {
		return err
	}
	w.records = append(w.records, func(s lifecycle.Server) bool {
		return four != nil && slices.ContainsFunc(addressesOf(s, false), four.MatchString) ||
			six != nil && slices.ContainsFunc(addressesOf(s, true), six.MatchString)
	})
	return nil
}

// readAdminFilters reads the filters that concern other projects, hosts and deleted servers. A project is ignored
// without all_tenants.
func readAdminFilters(c *request.Call, w *serverQuery, q url.Values) error {
	if q.Has("all_tenants") {
		value, known := request.Style.Bool(last(q, "all_tenants"))
		switch {
		case !known && last(q, "all_tenants") != "":
			return fault.New(fault.Invalid, "all_tenants must be true or false; it is %q", edge.Clip(last(q, "all_tenants")))
		case value || !known:
			rule := policies.ListServersOfAll
			if c.Spec.Rule == policies.DetailServers {
				rule = policies.DetailServersOfAll
			}
			if err := c.Authorize(rule, c.Owner()); err != nil {
				return err
			}
			w.filter.Project = cmp.Or(last(q, "tenant_id"), last(q, "project_id"))
		}
	}
	name, err := request.HostFilter(q)
	if err != nil {
		return err
	}
	w.filter.Host = name
	deleted, _ := request.Style.Bool(last(q, "deleted")) // as in Nova, other words mean false
	w.filter.Deleted = w.filter.Deleted || deleted
	addSoftDeleted(w, q)
	return nil
}

// addSoftDeleted decides whether a list has servers that can be restored: with `deleted`, unless soft_deleted is false;
// otherwise only if soft_deleted is true, or if what has changed is requested.
func addSoftDeleted(w *serverQuery, q url.Values) {
	soft, given := request.Style.Bool(last(q, "soft_deleted"))
	changes := !q.Has("deleted") && (q.Has("changes-since") || q.Has("changes-before"))
	if w.filter.Deleted {
		w.filter.OrSoftDeleted = soft || !given
		return
	}
	w.filter.NoSoftDeleted = !soft && !changes
}

// statuses are the statuses of the Compute API.
var statuses = []string{"ACTIVE", "BUILD", "ERROR", "DELETED", "HARD_REBOOT", "MIGRATING", "PASSWORD", "PAUSED",
	"REBOOT", "REBUILD", "RESCUE", "RESIZE", "REVERT_RESIZE", "SHELVED", "SHELVED_OFFLOADED", "SHUTOFF", "SOFT_DELETED",
	"SUSPENDED", "UNKNOWN", "VERIFY_RESIZE"}

// readStatusFilter reads the filters by status. Those that are not known are ignored beside others.
func readStatusFilter(c *request.Call, w *serverQuery, texts []string) error {
	var wanted []string
	for _, text := range texts {
		if status := strings.ToUpper(text); slices.Contains(statuses, status) && !slices.Contains(wanted, status) {
			wanted = append(wanted, status)
		}
	}
	switch {
	case len(texts) == 0 || len(wanted) == 0 && strings.Join(texts, "") == "":
		return nil
	case len(wanted) == 0 && c.Has(compute.StatusChecked):
		return fault.New(fault.Invalid, "%q is not a status of a server; ACTIVE, BUILD and ERROR are", edge.Clip(texts[0]))
	case len(wanted) == 0:
		w.none = true
	case slices.Equal(wanted, []string{"DELETED"}) && !c.Who.IsAdmin():
		return fault.New(fault.Forbidden, "only admins may list deleted servers")
	case len(wanted) == 1:
		w.filter.Status, w.filter.Deleted = wanted[0], wanted[0] == "DELETED"
	default:
		w.records = append(w.records, func(s lifecycle.Server) bool { return slices.Contains(wanted, s.Status()) })
	}
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
	return compile("name", text)
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

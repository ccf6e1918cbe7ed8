package request

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
)

// control are the query parameters that are no filters.
var control = []string{"fields", "sort_key", "sort_dir", "limit", "marker", "page_reverse", changedSince}

// changedSince selects the objects that have changed at a time or later.
const changedSince = "changed_since"

// tagFilters are the filters by tags.
var tagFilters = []string{"tags", "tags-any", "not-tags", "not-tags-any"}

// booleans are the filters whose values are booleans.
var booleans = []string{"admin_state_up", "shared", "router:external", "enable_dhcp", "is_default", "stateful"}

// StoreFilter returns the part of a query that the database filters by.
func StoreFilter(q url.Values) store.Filter {
	f := store.Filter{IDs: q["id"]}
	f.Projects = slices.Concat(q["project_id"], q["tenant_id"])
	return f
}

// checkQuery refuses filters and sort keys that the collection does not have, and texts as booleans.
func (col *Collection) checkQuery(q url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(control, name) && !slices.Contains(tagFilters, name) &&
			!slices.Contains(col.Attributes, name) {
			return fault.New(fault.Invalid, "'%s' is invalid attribute for filtering; leave it out", name)
		}
		for _, text := range q[name] {
			if slices.Contains(booleans, name) && !slices.Contains([]string{"true", "false", "1", "0"},
				strings.ToLower(text)) {
				return fault.New(fault.Invalid, "'%s' cannot be converted to boolean; filter %s by true or false", text,
					name).WithCode("InvalidInput")
			}
		}
	}
	if text := q.Get(changedSince); text != "" {
		if _, err := parseTime(text); err != nil || !slices.Contains(col.Attributes, "updated_at") {
			return fault.New(fault.Invalid,
				"The input changed_since must be in the following format: YYYY-MM-DDTHH:MM:SS, "+
					"for a collection whose objects have updated_at; it is '%s'",
				edge.Clip(text)).WithCode("InvalidInput")
		}
	}
	if len(q["sort_key"]) != len(q["sort_dir"]) && len(q["sort_dir"]) > 0 {
		return fault.New(fault.Invalid, "The number of sort_keys and sort_dirs must be same")
	}
	for _, key := range q["sort_key"] {
		if !slices.Contains(col.Attributes, key) {
			return fault.New(fault.Invalid, "%s is invalid attribute for sort_key; use an attribute of a %s", key,
				col.One)
		}
	}
	for _, dir := range q["sort_dir"] {
		if dir != "asc" && dir != "desc" {
			return fault.New(fault.Invalid, "%s is invalid value for sort_dirs, valid value is 'asc' and 'desc'", dir)
		}
	}
	return nil
}

// Matches reports whether a view meets all filters of a query: for each one, at least one value.
func Matches(view map[string]any, q url.Values) bool {
	if since, err := parseTime(q.Get(changedSince)); err == nil {
		if updated, err := parseTime(edge.TextOf(view["updated_at"])); err != nil || updated.Before(since) {
			return false
		}
	}
	for name, values := range q {
		if slices.Contains(control, name) {
			continue
		}
		if slices.Contains(tagFilters, name) {
			if !matchesTags(view, name, values) {
				return false
			}
			continue
		}
		value, ok := view[name]
		if !ok || !slices.ContainsFunc(values, func(want string) bool { return equals(name, value, want) }) {
			return false
		}
	}
	return true
}

// parseTime reads a time of the API, in UTC with or without the letter Z.
func parseTime(text string) (time.Time, error) {
	return time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(text, "Z"))
}

// equals compares an attribute with the text of a filter. A list is equal if one of its elements is. A filter of
// fixed_ips is KEY=VALUE.
func equals(name string, value any, want string) bool {
	switch v := value.(type) {
	case nil:
		return want == "" || want == "null"
	case bool:
		return strings.EqualFold(want, strconv.FormatBool(v)) || want == map[bool]string{true: "1", false: "0"}[v]
	case []string:
		return slices.Contains(v, want)
	case []map[string]any:
		key, text, _ := strings.Cut(want, "=")
		return slices.ContainsFunc(v, func(one map[string]any) bool {
			if key == "ip_address_substr" {
				return strings.Contains(edge.TextOf(one["ip_address"]), text)
			}
			return edge.TextOf(one[key]) == text
		})
	}
	if name == "mac_address" {
		return strings.EqualFold(edge.TextOf(value), want)
	}
	return edge.TextOf(value) == want
}

// matchesTags applies one filter by tags: comma-separated lists.
func matchesTags(view map[string]any, filter string, values []string) bool {
	tags, _ := view["tags"].([]string)
	all, any := true, false
	for _, list := range values {
		for _, tag := range strings.Split(list, ",") {
			has := slices.Contains(tags, tag)
			all, any = all && has, any || has
		}
	}
	switch filter {
	case "tags":
		return all
	case "tags-any":
		return any
	case "not-tags":
		return !all
	}
	return !any
}

// order sorts views by the sort keys of a query, and then by id.
func order(views []map[string]any, q url.Values) {
	keys, dirs := q["sort_key"], q["sort_dir"]
	slices.SortStableFunc(views, func(a, b map[string]any) int {
		for i, key := range keys {
			n := compare(a[key], b[key])
			if i < len(dirs) && dirs[i] == "desc" {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return compare(a["id"], b["id"])
	})
}

func compare(a, b any) int {
	x, isInt := a.(int)
	y, isInt2 := b.(int)
	if isInt && isInt2 {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(edge.TextOf(a), edge.TextOf(b))
}

// page returns the page of sorted views that a query asks for, and whether there are views before it and after it.
func page(views []map[string]any, q url.Values) (part []map[string]any, before, after bool, err error) {
	limit := 0
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			return nil, false, false, fault.New(fault.Invalid, "limit must be an integer 0 or greater and not '%s'",
				text)
		}
	}
	reverse := strings.EqualFold(q.Get("page_reverse"), "true")
	from, to := 0, len(views)
	if marker := q.Get("marker"); marker != "" {
		at := slices.IndexFunc(views, func(v map[string]any) bool { return v["id"] == marker })
		if at < 0 {
			return nil, false, false, fault.New(fault.Invalid, "marker %s does not exist; begin with the first page",
				marker)
		}
		if from = at + 1; reverse {
			from, to = 0, at
		}
	}
	if limit > 0 && to-from > limit {
		if reverse {
			from = to - limit
		} else {
			to = from + limit
		}
	}
	return views[from:to], from > 0, to < len(views), nil
}

// shown returns a view without hidden attributes, and of the others those that a query asks for.
func (col Collection) shown(view map[string]any, fields []string) map[string]any {
	for _, name := range col.Hidden {
		delete(view, name)
	}
	return Selected(view, fields)
}

// Selected returns a view with the attributes that a query asks for; without any, all.
func Selected(view map[string]any, fields []string) map[string]any {
	if len(fields) == 0 {
		return view
	}
	out := map[string]any{}
	for _, name := range fields {
		if value, ok := view[name]; ok {
			out[name] = value
		}
	}
	return out
}

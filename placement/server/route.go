package server

import (
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	api "github.com/openberth/berth/api/placement"
)

// route is a path and what can be done with it.
type route struct {
	parts []string // of the path; one in braces is a variable
	verbs map[string]verb
}

// verb is a method of a path.
type verb struct {
	handle func(*call) error
	since  api.Version
	absent int  // the status before since: 404 unless it says otherwise
	body   bool // the request has to have JSON
	answer bool // the answer is JSON, and the client has to accept it
	may    func(*call) bool
}

// routes is the whole API.
func routes() []route {
	read := func(since api.Version, handle func(*call) error) verb {
		return verb{handle: handle, since: since, answer: true}
	}
	write := func(since api.Version, handle func(*call) error) verb {
		return verb{handle: handle, since: since, body: true}
	}
	plain := func(since api.Version, handle func(*call) error) verb { return verb{handle: handle, since: since} }
	type verbs = map[string]verb
	table := []struct {
		path  string
		verbs verbs
	}{
		{"/", verbs{"GET": {handle: (*call).versions, may: anyone}}},
		{"", verbs{"GET": {handle: (*call).versions, may: anyone}}},
		{"/resource_providers", verbs{"GET": read(0, (*call).listProviders), "POST": write(0, (*call).createProvider)}},
		{"/resource_providers/{uuid}", verbs{"GET": read(0, (*call).showProvider), "PUT": write(0, (*call).updateProvider), "DELETE": plain(0, (*call).deleteProvider)}},
		{"/resource_providers/{uuid}/inventories", verbs{"GET": read(0, (*call).listInventories), "POST": write(0, (*call).createInventory),
			"PUT": write(0, (*call).replaceInventories), "DELETE": {handle: (*call).deleteInventories, since: 5, absent: http.StatusMethodNotAllowed}}},
		{"/resource_providers/{uuid}/inventories/{class}", verbs{"GET": read(0, (*call).showInventory), "PUT": write(0, (*call).updateInventory), "DELETE": plain(0, (*call).deleteInventory)}},
		{"/resource_providers/{uuid}/usages", verbs{"GET": read(0, (*call).providerUsages)}},
		{"/resource_providers/{uuid}/aggregates", verbs{"GET": read(1, (*call).listAggregates), "PUT": write(1, (*call).replaceAggregates)}},
		{"/resource_providers/{uuid}/allocations", verbs{"GET": read(0, (*call).providerAllocations)}},
		{"/resource_providers/{uuid}/traits", verbs{"GET": read(6, (*call).listProviderTraits), "PUT": write(6, (*call).replaceTraits), "DELETE": plain(6, (*call).clearTraits)}},
		{"/resource_classes", verbs{"GET": read(2, (*call).listClasses), "POST": write(2, (*call).createClass)}},
		{"/resource_classes/{name}", verbs{"GET": read(2, (*call).showClass), "PUT": plain(2, (*call).putClass), "DELETE": plain(2, (*call).deleteClass)}},
		{"/traits", verbs{"GET": read(6, (*call).listTraits)}},
		{"/traits/{name}", verbs{"GET": plain(6, (*call).showTrait), "PUT": plain(6, (*call).putTrait), "DELETE": plain(6, (*call).deleteTrait)}},
		{"/allocations", verbs{"POST": write(13, (*call).postAllocations)}},
		{"/allocations/{uuid}", verbs{"GET": read(0, (*call).showAllocations), "PUT": write(0, (*call).putAllocations), "DELETE": plain(0, (*call).deleteAllocations)}},
		{"/allocation_candidates", verbs{"GET": read(10, (*call).candidates)}},
		{"/usages", verbs{"GET": {handle: (*call).totalUsages, since: 9, answer: true, may: projectReader}}},
		{"/reshaper", verbs{"POST": write(30, (*call).reshape)}},
		{"/berth/v1/explain", verbs{"GET": read(0, (*call).explain)}},
	}
	list := make([]route, len(table))
	for i, row := range table {
		list[i] = route{parts: strings.Split(row.path, "/"), verbs: row.verbs}
	}
	return list
}

// match compares a path, cut at its slashes, with the route. A variable takes any text but none.
func (r *route) match(parts []string) (map[string]string, bool) {
	if len(parts) != len(r.parts) {
		return nil, false
	}
	var values map[string]string
	for i, want := range r.parts {
		if !strings.HasPrefix(want, "{") {
			if want != parts[i] {
				return nil, false
			}
			continue
		}
		if parts[i] == "" {
			return nil, false
		}
		if values == nil {
			values = map[string]string{}
		}
		values[strings.Trim(want, "{}")] = parts[i]
	}
	return values, true
}

// admit holds a request against what its verb demands.
func (v verb) admit(c *call, r *route) error {
	if c.version < v.since {
		if v.absent == http.StatusMethodNotAllowed {
			return notAllowed(c, r)
		}
		return status(http.StatusNotFound, "The resource could not be found.")
	}
	if v.body {
		if err := c.wantJSON(); err != nil {
			return err
		}
	}
	if v.answer && !accepts(c.r.Header) {
		return status(http.StatusNotAcceptable, "Only application/json is provided")
	}
	may := v.may
	if may == nil {
		may = administrator
	}
	if !may(c) {
		return status(http.StatusForbidden, "Policy does not allow %s %s to be performed.", c.r.Method, strings.Join(r.parts, "/"))
	}
	return nil
}

// wantJSON refuses a body of another content type than JSON.
func (c *call) wantJSON() error {
	given := c.r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(given); err != nil || media != "application/json" {
		if given == "" {
			given = "None"
		}
		return status(http.StatusUnsupportedMediaType, "The media type %s is not supported, use application/json", given)
	}
	return nil
}

func notAllowed(c *call, r *route) error {
	c.w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(r.verbs)), ", "))
	return status(http.StatusMethodNotAllowed, "The method %s is not allowed for this resource.", c.r.Method)
}

// accepts says whether a client takes JSON: no Accept header, or one with a range that covers it and is not refused by q=0.
func accepts(h http.Header) bool {
	lines := h.Values("Accept")
	if len(lines) == 0 {
		return true
	}
	given := false
	for item := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		given = true
		media, params, err := mime.ParseMediaType(item)
		if err != nil || strings.Trim(params["q"], "0.") == "" && params["q"] != "" {
			continue
		}
		if media == "application/json" || media == "application/*" || media == "*/*" {
			return true
		}
	}
	return !given
}

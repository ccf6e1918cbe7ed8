package server

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	api "github.com/openberth/berth/api/placement"
)

// read returns a verb that answers with JSON. rule is given without its prefix `placement:`.
func read(since api.Version, rule string, handle func(*call) error) verb {
	return verb{rule: "placement:" + rule, handle: handle, since: since, answer: true}
}

// write returns a verb whose request has a JSON body. rule is given without its prefix `placement:`.
func write(since api.Version, rule string, handle func(*call) error) verb {
	return verb{rule: "placement:" + rule, handle: handle, since: since, body: true}
}

// plain returns a verb that neither reads nor answers JSON. rule is given without its prefix `placement:`.
func plain(since api.Version, rule string, handle func(*call) error) verb {
	return verb{rule: "placement:" + rule, handle: handle, since: since}
}

// routes returns the routes of the whole API.
func routes() []route {
	type verbs = map[string]verb
	deleteAll := plain(5, "resource_providers:inventories:delete", (*call).deleteInventories)
	deleteAll.statusBefore = http.StatusMethodNotAllowed
	listAggregates := read(1, "resource_providers:aggregates:list", (*call).listAggregates)
	replaceAggregates := write(1, "resource_providers:aggregates:update", (*call).replaceAggregates)
	listAggregates.mediaFirst, replaceAggregates.mediaFirst = true, true
	table := []route{
		{path: "/", verbs: verbs{"GET": {handle: (*call).versions}}},
		{path: "", verbs: verbs{"GET": {handle: (*call).versions}}},
		{path: "/resource_providers", verbs: verbs{
			"GET":  read(0, "resource_providers:list", limited((*call).listProviders)),
			"POST": write(0, "resource_providers:create", (*call).createProvider)}},
		{path: "/resource_providers/{uuid}", verbs: verbs{
			"GET":    read(0, "resource_providers:show", (*call).showProvider),
			"PUT":    write(0, "resource_providers:update", (*call).updateProvider),
			"DELETE": plain(0, "resource_providers:delete", (*call).deleteProvider)}},
		{path: "/resource_providers/{uuid}/inventories", verbs: verbs{
			"GET":    read(0, "resource_providers:inventories:list", (*call).listInventories),
			"POST":   write(0, "resource_providers:inventories:create", (*call).createInventory),
			"PUT":    write(0, "resource_providers:inventories:update", (*call).replaceInventories),
			"DELETE": deleteAll}},
		{path: "/resource_providers/{uuid}/inventories/{class}", verbs: verbs{
			"GET":    read(0, "resource_providers:inventories:show", (*call).showInventory),
			"PUT":    write(0, "resource_providers:inventories:update", (*call).updateInventory),
			"DELETE": plain(0, "resource_providers:inventories:delete", (*call).deleteInventory)}},
		{path: "/resource_providers/{uuid}/usages", verbs: verbs{
			"GET": read(0, "resource_providers:usages", (*call).providerUsages)}},
		{path: "/resource_providers/{uuid}/aggregates", verbs: verbs{
			"GET": listAggregates,
			"PUT": replaceAggregates}},
		{path: "/resource_providers/{uuid}/allocations", verbs: verbs{
			"GET": read(0, "resource_providers:allocations:list", (*call).providerAllocations)}},
		{path: "/resource_providers/{uuid}/traits", verbs: verbs{
			"GET":    read(6, "resource_providers:traits:list", (*call).listProviderTraits),
			"PUT":    write(6, "resource_providers:traits:update", (*call).replaceTraits),
			"DELETE": plain(6, "resource_providers:traits:delete", (*call).clearTraits)}},
		{path: "/resource_classes", verbs: verbs{
			"GET":  read(2, "resource_classes:list", (*call).listClasses),
			"POST": write(2, "resource_classes:create", (*call).createClass)}},
		{path: "/resource_classes/{name}", verbs: verbs{
			"GET":    read(2, "resource_classes:show", (*call).showClass),
			"PUT":    plain(2, "resource_classes:update", (*call).putClass),
			"DELETE": plain(2, "resource_classes:delete", (*call).deleteClass)}},
		{path: "/traits", verbs: verbs{
			"GET": read(6, "traits:list", (*call).listTraits)}},
		{path: "/traits/{name}", verbs: verbs{
			"GET":    plain(6, "traits:show", (*call).showTrait),
			"PUT":    plain(6, "traits:update", (*call).putTrait),
			"DELETE": plain(6, "traits:delete", (*call).deleteTrait)}},
		{path: "/allocations", verbs: verbs{
			"POST": write(13, "allocations:manage", (*call).postAllocations)}},
		{path: "/allocations/{uuid}", verbs: verbs{
			"GET":    read(0, "allocations:list", (*call).showAllocations),
			"PUT":    write(0, "allocations:update", (*call).putAllocations),
			"DELETE": plain(0, "allocations:delete", (*call).deleteAllocations)}},
		{path: "/allocation_candidates", verbs: verbs{
			"GET": read(10, "allocation_candidates:list", limited((*call).candidates))}},
		{path: "/usages", verbs: verbs{
			"GET": read(9, "usages", (*call).totalUsages)}},
		{path: "/reshaper", verbs: verbs{
			"POST": write(30, "reshaper:reshape", (*call).reshape)}},
		{path: "/berth/v1/explain", verbs: verbs{ // same rule as the query that it explains
			"GET": read(0, "allocation_candidates:list", limited((*call).explain))}},
	}
	for i := range table {
		table[i].segments = strings.Split(table[i].path, "/")
	}
	return table
}

// match compares the segments of a path with the route and returns the values of the variables. A variable matches any
// text except the empty one.
func (r *route) match(parts []string) (map[string]string, bool) {
	if len(parts) != len(r.segments) {
		return nil, false
	}
	var values map[string]string
	for i, want := range r.segments {
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

// admit returns an error if the request does not meet the requirements of its verb: the microversion, the media types
// and the policy.
func (v verb) admit(c *call, r *route) error {
	if v.mediaFirst {
		if err := v.admitMedia(c); err != nil {
			return err
		}
	}
	if c.version < v.since {
		if v.statusBefore == http.StatusMethodNotAllowed {
			return notAllowed(c, r)
		}
		return newStatusError(http.StatusNotFound, "The resource could not be found.")
	}
	if err := v.admitMedia(c); err != nil {
		return err
	}
	return c.authorize(v.rule)
}

// admitMedia checks the Content-Type and the Accept header of the request.
func (v verb) admitMedia(c *call) error {
	if v.body {
		if err := c.requireJSON(); err != nil {
			return err
		}
	}
	if v.answer && !accepts(c.r.Header) {
		return newStatusError(http.StatusNotAcceptable, "Only %s is provided", jsonType)
	}
	return nil
}

func notAllowed(c *call, r *route) error {
	c.w.Header().Set("Allow", strings.Join(slices.Sorted(maps.Keys(r.verbs)), ", "))
	return newStatusError(http.StatusMethodNotAllowed, "The method %s is not allowed for this resource.", c.r.Method)
}

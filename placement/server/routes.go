package server

import (
	"net/http"
	"time"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
)

// route is a path of the API with its methods, and verb is one of them.
type (
	route = edge.Route[*call]
	verb  = edge.Method[*call]
)

// read returns a verb that answers with JSON. rule is given without its prefix `placement:`.
func read(since api.Version, rule string, handle func(*call) error) verb {
	return verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since), Answer: true}, Handle: handle}
}

// write returns a verb whose request has a JSON body. rule is given without its prefix `placement:`.
func write(since api.Version, rule string, handle func(*call) error) verb {
	return verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since), Body: true}, Handle: handle}
}

// plain returns a verb that neither reads nor answers JSON. rule is given without its prefix `placement:`.
func plain(since api.Version, rule string, handle func(*call) error) verb {
	return verb{Spec: edge.Spec{Rule: "placement:" + rule, Since: int(since)}, Handle: handle}
}

// routes returns the routes of the whole API.
func routes() []route {
	type verbs = map[string]verb
	deleteAll := plain(5, "resource_providers:inventories:delete", (*call).deleteInventories)
	deleteAll.StatusBefore = http.StatusMethodNotAllowed
	listAggregates := read(1, "resource_providers:aggregates:list", (*call).listAggregates)
	replaceAggregates := write(1, "resource_providers:aggregates:update", (*call).replaceAggregates)
	listAggregates.MediaFirst, replaceAggregates.MediaFirst = true, true
	return append([]route{
		{Path: "/", Public: true, Methods: verbs{"GET": {Handle: (*call).versions}}},
		{Path: "", Public: true, Methods: verbs{"GET": {Handle: (*call).versions}}},
		{Path: "/resource_providers", Methods: verbs{
			"GET":  read(0, "resource_providers:list", limited((*call).listProviders)),
			"POST": write(0, "resource_providers:create", (*call).createProvider)}},
		{Path: "/resource_providers/{uuid}", Methods: verbs{
			"GET":    read(0, "resource_providers:show", (*call).showProvider),
			"PUT":    write(0, "resource_providers:update", (*call).updateProvider),
			"DELETE": plain(0, "resource_providers:delete", (*call).deleteProvider)}},
		{Path: "/resource_providers/{uuid}/inventories", Methods: verbs{
			"GET":    read(0, "resource_providers:inventories:list", (*call).listInventories),
			"POST":   write(0, "resource_providers:inventories:create", (*call).createInventory),
			"PUT":    write(0, "resource_providers:inventories:update", (*call).replaceInventories),
			"DELETE": deleteAll}},
		{Path: "/resource_providers/{uuid}/inventories/{class}", Methods: verbs{
			"GET":    read(0, "resource_providers:inventories:show", (*call).showInventory),
			"PUT":    write(0, "resource_providers:inventories:update", (*call).updateInventory),
			"DELETE": plain(0, "resource_providers:inventories:delete", (*call).deleteInventory)}},
		{Path: "/resource_providers/{uuid}/usages", Methods: verbs{
			"GET": read(0, "resource_providers:usages", (*call).providerUsages)}},
		{Path: "/resource_providers/{uuid}/aggregates", Methods: verbs{
			"GET": listAggregates,
			"PUT": replaceAggregates}},
		{Path: "/resource_providers/{uuid}/allocations", Methods: verbs{
			"GET": read(0, "resource_providers:allocations:list", (*call).providerAllocations)}},
		{Path: "/resource_providers/{uuid}/traits", Methods: verbs{
			"GET":    read(6, "resource_providers:traits:list", (*call).listProviderTraits),
			"PUT":    write(6, "resource_providers:traits:update", (*call).replaceTraits),
			"DELETE": plain(6, "resource_providers:traits:delete", (*call).clearTraits)}},
		{Path: "/resource_classes", Methods: verbs{
			"GET":  read(2, "resource_classes:list", (*call).listClasses),
			"POST": write(2, "resource_classes:create", (*call).createClass)}},
		{Path: "/resource_classes/{name}", Methods: verbs{
			"GET":    read(2, "resource_classes:show", (*call).showClass),
			"PUT":    plain(2, "resource_classes:update", (*call).putClass),
			"DELETE": plain(2, "resource_classes:delete", (*call).deleteClass)}},
		{Path: "/traits", Methods: verbs{
			"GET": read(6, "traits:list", (*call).listTraits)}},
		{Path: "/traits/{name}", Methods: verbs{
			"GET":    plain(6, "traits:show", (*call).showTrait),
			"PUT":    plain(6, "traits:update", (*call).putTrait),
			"DELETE": plain(6, "traits:delete", (*call).deleteTrait)}},
		{Path: "/allocations", Methods: verbs{
			"POST": write(13, "allocations:manage", (*call).postAllocations)}},
		{Path: "/allocations/{uuid}", Methods: verbs{
			"GET":    read(0, "allocations:list", (*call).showAllocations),
			"PUT":    write(0, "allocations:update", (*call).putAllocations),
			"DELETE": plain(0, "allocations:delete", (*call).deleteAllocations)}},
		{Path: "/allocation_candidates", Methods: verbs{
			"GET": read(10, "allocation_candidates:list", limited((*call).candidates))}},
		{Path: "/usages", Methods: verbs{
			"GET": read(9, "usages", (*call).totalUsages)}},
		{Path: "/reshaper", Methods: verbs{
			"POST": write(30, "reshaper:reshape", (*call).reshape)}},
	}, ownRoutes()...)
}

// ownRoutes returns the routes that OpenStack's Placement does not have.
func ownRoutes() []route {
	type verbs = map[string]verb
	return []route{
		{Path: "/berth/v1/explain", Methods: verbs{ // same rule as the query that it explains
			"GET": read(0, "allocation_candidates:list", limited((*call).explain))}},
		{Path: "/berth/v1/trees/{uuid}", Methods: verbs{ // a tree names the consumers of its providers
			"GET": read(0, "resource_providers:allocations:list", (*call).showTree)}},
		{Path: "/berth/v1/hosts", Methods: verbs{
			"GET": read(0, "resource_providers:allocations:list", limited((*call).listHosts))}},
		{Path: "/berth/v1/hosts/{host}", Methods: verbs{
			"GET": read(0, "resource_providers:allocations:list", (*call).showHost)}},
		{Path: "/berth/v1/hosts/{host}/devices/{address}", Methods: verbs{
			"GET": read(0, "resource_providers:allocations:list", (*call).showDevice)}},
		{Path: "/berth/v1/devices", Methods: verbs{
			"GET": read(0, "resource_providers:allocations:list", limited((*call).listDevices))}},
		{Path: "/berth/v1/headroom", Methods: verbs{ // how often the query could be claimed
			"GET": read(0, "allocation_candidates:list", alone(limited((*call).headroom)))}},
		{Path: "/berth/v1/usage-history", Methods: verbs{ // sums of the usages of all providers
			"GET": read(0, "resource_providers:usages", limited((*call).usageHistory))}},
		{Path: "/berth/v1/events", Methods: verbs{ // events show on which hosts consumers are
			"GET": plain(0, "resource_providers:list", (*call).events)}},
	}
}

// versions handles GET /: it sends the version document. It needs no authentication.
func (c *call) versions() error {
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, object{"versions": []object{{
		"id": "v" + api.Oldest.String(), "status": "CURRENT",
		"min_version": api.Oldest.String(), "max_version": api.Latest.String(),
		"links": []api.Link{{Rel: "self", Href: ""}},
	}}})
}

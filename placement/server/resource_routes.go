package server

import (
	"net/http"
)

// resourceRoutes returns the routes of the Placement API, except those of candidates.
func resourceRoutes() []route {
	type verbs = map[string]verb
	deleteAll := plain(5, "resource_providers:inventories:delete", (*call).deleteInventories)
	deleteAll.StatusBefore = http.StatusMethodNotAllowed
	listAggregates := read(1, "resource_providers:aggregates:list", (*call).listAggregates)
	replaceAggregates := write(1, "resource_providers:aggregates:update", (*call).replaceAggregates)
	listAggregates.MediaFirst, replaceAggregates.MediaFirst = true, true
	return []route{
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
		{Path: "/usages", Methods: verbs{
			"GET": read(9, "usages", (*call).totalUsages)}},
		{Path: "/reshaper", Methods: verbs{
			"POST": write(30, "reshaper:reshape", (*call).reshape)}},
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
	}
}

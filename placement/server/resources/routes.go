// Package resources has the handlers of what the database stores: providers with inventories, traits, aggregates and
// usages, resource classes, allocations and reshapes. It also shows whole trees, hosts and devices. Each resource has
// its file. refresh.go brings what a request has written into the index.
package resources

import (
	"net/http"

	"github.com/openberth/berth/placement/server/request"
)

// Routes returns the routes of the Placement API, except those of candidates.
func Routes() []request.Route {
	type verbs = map[string]request.Verb
	deleteAll := request.Plain(5, "resource_providers:inventories:delete", deleteInventories)
	deleteAll.StatusBefore = http.StatusMethodNotAllowed
	list := request.Read(1, "resource_providers:aggregates:list", listAggregates)
	replace := request.Write(1, "resource_providers:aggregates:update", replaceAggregates)
	list.MediaFirst, replace.MediaFirst = true, true
	return []request.Route{
		{Path: "/resource_providers", Methods: verbs{
			"GET":  request.Read(0, "resource_providers:list", request.Limited(listProviders)),
			"POST": request.Write(0, "resource_providers:create", createProvider)}},
		{Path: "/resource_providers/{uuid}", Methods: verbs{
			"GET":    request.Read(0, "resource_providers:show", showProvider),
			"PUT":    request.Write(0, "resource_providers:update", updateProvider),
			"DELETE": request.Plain(0, "resource_providers:delete", deleteProvider)}},
		{Path: "/resource_providers/{uuid}/inventories", Methods: verbs{
			"GET":    request.Read(0, "resource_providers:inventories:list", listInventories),
			"POST":   request.Write(0, "resource_providers:inventories:create", createInventory),
			"PUT":    request.Write(0, "resource_providers:inventories:update", replaceInventories),
			"DELETE": deleteAll}},
		{Path: "/resource_providers/{uuid}/inventories/{class}", Methods: verbs{
			"GET":    request.Read(0, "resource_providers:inventories:show", showInventory),
			"PUT":    request.Write(0, "resource_providers:inventories:update", updateInventory),
			"DELETE": request.Plain(0, "resource_providers:inventories:delete", deleteInventory)}},
		{Path: "/resource_providers/{uuid}/usages", Methods: verbs{
			"GET": request.Read(0, "resource_providers:usages", providerUsages)}},
		{Path: "/resource_providers/{uuid}/aggregates", Methods: verbs{
			"GET": list,
			"PUT": replace}},
		{Path: "/resource_providers/{uuid}/allocations", Methods: verbs{
			"GET": request.Read(0, "resource_providers:allocations:list", providerAllocations)}},
		{Path: "/resource_providers/{uuid}/traits", Methods: verbs{
			"GET":    request.Read(6, "resource_providers:traits:list", listProviderTraits),
			"PUT":    request.Write(6, "resource_providers:traits:update", replaceTraits),
			"DELETE": request.Plain(6, "resource_providers:traits:delete", clearTraits)}},
		{Path: "/resource_classes", Methods: verbs{
			"GET":  request.Read(2, "resource_classes:list", listClasses),
			"POST": request.Write(2, "resource_classes:create", createClass)}},
		{Path: "/resource_classes/{name}", Methods: verbs{
			"GET":    request.Read(2, "resource_classes:show", showClass),
			"PUT":    request.Plain(2, "resource_classes:update", putClass),
			"DELETE": request.Plain(2, "resource_classes:delete", deleteClass)}},
		{Path: "/traits", Methods: verbs{
			"GET": request.Read(6, "traits:list", listTraits)}},
		{Path: "/traits/{name}", Methods: verbs{
			"GET":    request.Plain(6, "traits:show", showTrait),
			"PUT":    request.Plain(6, "traits:update", putTrait),
			"DELETE": request.Plain(6, "traits:delete", deleteTrait)}},
		{Path: "/allocations", Methods: verbs{
			"POST": request.Write(13, "allocations:manage", postAllocations)}},
		{Path: "/allocations/{uuid}", Methods: verbs{
			"GET":    request.Read(0, "allocations:list", showAllocations),
			"PUT":    request.Write(0, "allocations:update", putAllocations),
			"DELETE": request.Plain(0, "allocations:delete", deleteAllocations)}},
		{Path: "/usages", Methods: verbs{
			"GET": request.Read(9, "usages", totalUsages)}},
		{Path: "/reshaper", Methods: verbs{
			"POST": request.Write(30, "reshaper:reshape", reshape)}},
		{Path: "/berth/v1/trees/{uuid}", Methods: verbs{ // a tree names the consumers of its providers
			"GET": request.Read(0, "resource_providers:allocations:list", showTree)}},
		{Path: "/berth/v1/hosts", Methods: verbs{
			"GET": request.Read(0, "resource_providers:allocations:list", request.Limited(listHosts))}},
		{Path: "/berth/v1/hosts/{host}", Methods: verbs{
			"GET": request.Read(0, "resource_providers:allocations:list", showHost)}},
		{Path: "/berth/v1/hosts/{host}/devices/{address}", Methods: verbs{
			"GET": request.Read(0, "resource_providers:allocations:list", showDevice)}},
		{Path: "/berth/v1/devices", Methods: verbs{
			"GET": request.Read(0, "resource_providers:allocations:list", request.Limited(listDevices))}},
	}
}

// Package policies contains the names and defaults of Placement's policy rules, as data for package policy.
//
// OpenStack's Placement changed its defaults twice. Up to Victoria all rules required the role admin. From Wallaby to
// Zed (function Zed) rules required system-scoped tokens, with the role reader for reads. Since 2023.1 (function Rules)
// they require project-scoped tokens with the role admin or service. Both later sets also accept the first one until
// enforce_new_defaults is set.
//
//	                              Rules                        Zed
//	reads                         admin or service             reader or admin, of the system
//	writes                        admin or service             admin, of the system
//	GET /usages                   these, or a reader of        these, or a reader of
//	                              the requested project        the requested project
//	POST /reshaper                service                      admin, of the system
//	… without enforce_new_defaults: or admin                   or admin
//	scope (with enforce_scope)    project                      system; GET /usages also project
//
// For GET /usages, the target of the policy check has the requested project as project_id.
package policies

import (
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/policy"
)

// The rules that guard requests.
const (
	ListProviders       = "placement:resource_providers:list"
	CreateProvider      = "placement:resource_providers:create"
	ShowProvider        = "placement:resource_providers:show"
	UpdateProvider      = "placement:resource_providers:update"
	DeleteProvider      = "placement:resource_providers:delete"
	ListInventories     = "placement:resource_providers:inventories:list"
	CreateInventory     = "placement:resource_providers:inventories:create"
	ShowInventory       = "placement:resource_providers:inventories:show"
	UpdateInventory     = "placement:resource_providers:inventories:update"
	DeleteInventory     = "placement:resource_providers:inventories:delete"
	ListAggregates      = "placement:resource_providers:aggregates:list"
	UpdateAggregates    = "placement:resource_providers:aggregates:update"
	ProviderUsages      = "placement:resource_providers:usages"
	ProviderAllocations = "placement:resource_providers:allocations:list"
	ListProviderTraits  = "placement:resource_providers:traits:list"
	UpdateTraits        = "placement:resource_providers:traits:update"
	DeleteTraits        = "placement:resource_providers:traits:delete"
	ListClasses         = "placement:resource_classes:list"
	CreateClass         = "placement:resource_classes:create"
	ShowClass           = "placement:resource_classes:show"
	UpdateClass         = "placement:resource_classes:update"
	DeleteClass         = "placement:resource_classes:delete"
	ListTraits          = "placement:traits:list"
	ShowTrait           = "placement:traits:show"
	PutTrait            = "placement:traits:update"
	DeleteTrait         = "placement:traits:delete"
	ManageAllocations   = "placement:allocations:manage"
	ListAllocations     = "placement:allocations:list"
	UpdateAllocations   = "placement:allocations:update"
	DeleteAllocations   = "placement:allocations:delete"
	ListCandidates      = "placement:allocation_candidates:list"
	Usages              = "placement:usages"
	Reshape             = "placement:reshaper:reshape"
)

// guardedRequests lists the requests that each rule guards, and whether they only read.
var guardedRequests = [...]struct {
	name  string
	reads bool
	what  string
}{
	{ListProviders, true, "GET /resource_providers"},
	{CreateProvider, false, "POST /resource_providers"},
	{ShowProvider, true, "GET /resource_providers/{uuid}"},
	{UpdateProvider, false, "PUT /resource_providers/{uuid}"},
	{DeleteProvider, false, "DELETE /resource_providers/{uuid}"},
	{ListInventories, true, "GET /resource_providers/{uuid}/inventories"},
	{CreateInventory, false, "POST /resource_providers/{uuid}/inventories"},
	{ShowInventory, true, "GET /resource_providers/{uuid}/inventories/{resource_class}"},
	{UpdateInventory, false, "PUT /resource_providers/{uuid}/inventories, " +
		"PUT /resource_providers/{uuid}/inventories/{resource_class}"},
	{DeleteInventory, false, "DELETE /resource_providers/{uuid}/inventories, " +
		"DELETE /resource_providers/{uuid}/inventories/{resource_class}"},
	{ListAggregates, true, "GET /resource_providers/{uuid}/aggregates"},
	{UpdateAggregates, false, "PUT /resource_providers/{uuid}/aggregates"},
	{ProviderUsages, true, "GET /resource_providers/{uuid}/usages"},
	{ProviderAllocations, true, "GET /resource_providers/{uuid}/allocations"},
	{ListProviderTraits, true, "GET /resource_providers/{uuid}/traits"},
	{UpdateTraits, false, "PUT /resource_providers/{uuid}/traits"},
	{DeleteTraits, false, "DELETE /resource_providers/{uuid}/traits"},
	{ListClasses, true, "GET /resource_classes"},
	{CreateClass, false, "POST /resource_classes"},
	{ShowClass, true, "GET /resource_classes/{name}"},
	{UpdateClass, false, "PUT /resource_classes/{name}"},
	{DeleteClass, false, "DELETE /resource_classes/{name}"},
	{ListTraits, true, "GET /traits"},
	{ShowTrait, true, "GET /traits/{name}"},
	{PutTrait, false, "PUT /traits/{name}"},
	{DeleteTrait, false, "DELETE /traits/{name}"},
	{ManageAllocations, false, "POST /allocations"},
	{ListAllocations, true, "GET /allocations/{consumer_uuid}"},
	{UpdateAllocations, false, "PUT /allocations/{consumer_uuid}"},
	{DeleteAllocations, false, "DELETE /allocations/{consumer_uuid}"},
	{ListCandidates, true, "GET /allocation_candidates"},
	{Usages, true, "GET /usages"},
	{Reshape, false, "POST /reshaper"},
}

// deprecatedAdmin returns the deprecated check that the base rules replace. As in the original its name contains
// "rule:", so no rule of a policy file can override it.
func deprecatedAdmin() *policy.Deprecated {
	return &policy.Deprecated{Name: "rule:admin_api", Check: "role:admin"}
}

var (
	project = []string{"project"}
	system  = []string{"system"}
)

// table returns the policy with these base rules and scopes, and the check of each request.
func table(base []policy.Rule, scopes []string, check func(name string, reads bool) string) policy.Table {
	t := policy.Table{Service: "placement", Base: append(base, systemRules()...), Scopes: scopes}
	for _, g := range guardedRequests {
		t.Rows = append(t.Rows, policy.Row{Names: g.name, Check: check(g.name, g.reads), What: g.what})
	}
	return t
}

// since2023 are the defaults since 2023.1.
var since2023 = table([]policy.Rule{
	{Name: "admin_api", Check: "role:admin", Scopes: project, Description: "An administrator."},
	{Name: "service_api", Check: "role:service", Scopes: project, Deprecated: deprecatedAdmin(),
		Description: "Another service of the cloud."},
	{Name: "admin_or_service_api", Check: "role:admin or role:service", Scopes: project, Deprecated: deprecatedAdmin(),
		Description: "Most requests."},
	projectReader(),
	{Name: "admin_or_project_reader_or_service_api", Check: "role:admin or rule:project_reader_api or role:service",
		Scopes: project, Deprecated: deprecatedAdmin(), Description: "Requests about a project's own usage."},
}, project, func(name string, _ bool) string {
	switch name {
	case Usages:
		return "rule:admin_or_project_reader_or_service_api"
	case Reshape:
		return "rule:service_api"
	}
	return "rule:admin_or_service_api"
})

// Rules returns the defaults since 2023.1. They include the base rules of Zed, which only policy files may refer to.
func Rules() []policy.Rule { return since2023.Rules() }

// Default returns an Enforcer of the defaults since 2023.1.
func Default() identity.Enforcer { return identity.Enforcer{Policy: enforcer()} }

var enforcer = since2023.Defaults()

// Zed returns the defaults from Wallaby to Zed, which Debian's placement 8.0.0 has.
func Zed() []policy.Rule {
	base := []policy.Rule{
		{Name: "admin_api", Check: "role:admin", Scopes: system, Description: "An administrator."},
		projectReader(),
	}
	rules := table(base, system, func(name string, reads bool) string {
		switch {
		case name == Usages:
			return "rule:system_or_project_reader"
		case reads:
			return "rule:system_reader_api"
		}
		return "rule:system_admin_api"
	}).Rules()
	for i := range rules {
		if rules[i].Name == Usages {
			rules[i].Scopes = []string{"system", "project"}
		}
	}
	return rules
}

// projectReader returns the base rule for readers of a project.
func projectReader() policy.Rule {
	return policy.Rule{Name: "project_reader_api", Check: "role:reader and project_id:%(project_id)s",
		Deprecated: deprecatedAdmin(), Description: "A reader of the project in question."}
}

// systemRules returns the base rules for system-scoped tokens.
func systemRules() []policy.Rule {
	return []policy.Rule{
		{Name: "system_admin_api", Check: "role:admin and system_scope:all", Deprecated: deprecatedAdmin(),
			Description: "An administrator of the system."},
		{Name: "system_reader_api", Check: "role:reader and system_scope:all", Deprecated: deprecatedAdmin(),
			Description: "A reader of the system."},
		{Name: "system_or_project_reader", Check: "rule:system_reader_api or rule:project_reader_api",
			Deprecated: deprecatedAdmin(), Description: "A reader of the system, or of the project in question."},
	}
}

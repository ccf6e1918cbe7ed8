package request

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// queryRule is the parameters that a path has from a version on; others are refused from then on.
type queryRule struct {
	since      compute.Version
	parameters string // separated by spaces
}

const (
	flavorParameters    = "is_public limit marker minDisk minRam sort_dir sort_key"
	hypervisorPage      = "hypervisor_hostname_pattern limit marker with_servers"
	actionParameters    = "changes-since limit marker"
	migrationParameters = "changes-since hidden host instance_uuid limit marker migration_type source_compute status"
)

// queryRules are the rules of the paths that refuse unknown parameters before 2.102, the oldest version first. The
// lists of servers check their filters themselves.
var queryRules = map[string][]queryRule{
	"/v2.1/flavors": {{compute.StrictRequests, flavorParameters}, {compute.FlavorName, flavorParameters + " name"}},
	"/v2.1/flavors/detail": {{compute.StrictRequests, flavorParameters},
		{compute.FlavorName, flavorParameters + " name"}},
	"/v2.1/limits":                           {{compute.StrictRequests, "tenant_id"}},
	"/v2.1/os-hypervisors":                   {{compute.ServiceUUID, hypervisorPage}},
	"/v2.1/os-hypervisors/detail":            {{compute.ServiceUUID, hypervisorPage}},
	"/v2.1/os-hypervisors/{id}":              {{compute.ServiceUUID, "with_servers"}},
	"/v2.1/os-keypairs":                      {{compute.StrictRequests, "limit marker user_id"}},
	"/v2.1/os-keypairs/{name}":               {{compute.StrictRequests, "user_id"}},
	"/v2.1/os-quota-sets/{project}":          {{compute.StrictRequests, "user_id"}},
	"/v2.1/os-server-groups":                 {{compute.StrictRequests, "all_projects limit offset"}},
	"/v2.1/os-services":                      {{compute.StrictRequests, "binary host"}},
	"/v2.1/os-simple-tenant-usage":           {{compute.StrictRequests, "detailed end limit marker start"}},
	"/v2.1/os-migrations":                    migrationRules,
	"/v2.1/os-quota-sets/{project}/detail":   {{compute.StrictRequests, "user_id"}},
	"/v2.1/os-simple-tenant-usage/{project}": {{compute.StrictRequests, "end limit marker start"}},
	"/v2.1/servers/{id}/os-instance-actions": {{compute.ActionPages, actionParameters},
		{compute.ChangesBefore, actionParameters + " changes-before"}},
	"/v2.1/servers/{id}/os-volume_attachments": {{compute.StrictRequests, "limit offset"}},
}

var migrationRules = []queryRule{{compute.MigrationUUID, migrationParameters},
	{compute.ChangesBefore, migrationParameters + " changes-before"},
	{compute.MigrationOwner, migrationParameters + " changes-before project_id user_id"}}

// ownQuery are the paths that check their parameters themselves, or that take any at every version.
var ownQuery = []string{"/v2.1/servers", "/v2.1/servers/detail", "/v2.1/os-quota-sets/{project}/defaults"}

// checkQuery returns fault.Invalid for a parameter that the path does not have in the version of the request: most
// paths ignore such parameters before 2.75 or 2.102.
func (c *Call) checkQuery() error {
	path := c.Route()
	if !strings.HasPrefix(path, "/v2.1/") || c.R.Method == http.MethodPost || slices.Contains(ownQuery, path) {
		return nil
	}
	allowed, strict := []string(nil), c.Has(compute.FlavorName)
	for _, rule := range queryRules[path] {
		if c.Has(rule.since) {
			allowed, strict = strings.Fields(rule.parameters), true
		}
	}
	if !strict {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(c.R.URL.Query())) {
		if !slices.Contains(allowed, key) {
			return fault.New(fault.Invalid, "Additional properties are not allowed ('%s' was unexpected) in the "+
				"query; at microversion %s there are %q", edge.Clip(key), c.Microversion, allowed)
		}
	}
	return nil
}

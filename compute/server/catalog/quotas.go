package catalog

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
)

const noQuotas = "Berth enforces no quotas, so they cannot be changed"

// quotaRoutes returns the paths of quotas and limits.
func quotaRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/os-quota-sets/{project}": {
			http.MethodGet:    request.Guarded(policies.ShowQuotas, s.showQuotas),
			http.MethodPut:    request.Guarded(policies.UpdateQuotas, request.Refused(noQuotas)),
			http.MethodDelete: request.Guarded(policies.DeleteQuotas, request.Refused(noQuotas)),
		},
		"/v2.1/os-quota-sets/{project}/defaults": {
			http.MethodGet: request.Guarded(policies.DefaultQuotas, s.defaultQuotas),
		},
		"/v2.1/os-quota-sets/{project}/detail": {
			http.MethodGet: request.Guarded(policies.DetailQuotas, s.detailQuotas),
		},
		"/v2.1/os-quota-class-sets/{class}": {
			http.MethodGet: request.Guarded(policies.ShowQuotaClass, s.showQuotaClass),
			http.MethodPut: request.Guarded(policies.UpdateQuotaClass, request.Refused(noQuotas)),
		},
		"/v2.1/limits": {http.MethodGet: request.Guarded(policies.ShowLimits, s.showLimits)},
	}
}

// unlimited is the limit of what Berth does not restrict.
const unlimited = -1

// quota is one resource with a limit, under its names in quotas and in limits.
type quota struct {
	name, limitName, usedName string // an empty name: not shown there
	limit                     int
	network                   bool // removed from quotas and limits in 2.36, from quota classes in 2.50
	files                     bool // removed in 2.57
	groups                    bool // shown in quota classes since 2.50
}

// quotas lists the resources of the API. Berth restricts only the key pairs of a user and the metadata of a server;
// what it does not have (networks, server groups, files for guests) has the limit 0.
var quotas = []quota{
	{name: "instances", limitName: "maxTotalInstances", usedName: "totalInstancesUsed", limit: unlimited},
	{name: "cores", limitName: "maxTotalCores", usedName: "totalCoresUsed", limit: unlimited},
	{name: "ram", limitName: "maxTotalRAMSize", usedName: "totalRAMUsed", limit: unlimited},
	{name: "metadata_items", limitName: "maxServerMeta", limit: request.MaxMetadata},
	{name: "key_pairs", limitName: "maxTotalKeypairs", limit: maxKeyPairs},
	{name: "server_groups", limitName: "maxServerGroups", usedName: "totalServerGroupsUsed", groups: true},
	{name: "server_group_members", limitName: "maxServerGroupMembers", groups: true},
	{name: "injected_files", limitName: "maxPersonality", files: true},
	{name: "injected_file_content_bytes", limitName: "maxPersonalitySize", files: true},
	{name: "injected_file_path_bytes", files: true},
	{name: "fixed_ips", limit: unlimited, network: true},
	{name: "floating_ips", limitName: "maxTotalFloatingIps", usedName: "totalFloatingIpsUsed", network: true},
	{name: "security_groups", limitName: "maxSecurityGroups", usedName: "totalSecurityGroupsUsed", network: true},
	{name: "security_group_rules", limitName: "maxSecurityGroupRules", network: true},
}

// shown reports whether the version has the quota.
func (q quota) shown(v compute.Version) bool {
	return (!q.network || !v.Has(compute.NoNetworkProxy)) && (!q.files || !v.Has(compute.NoPersonality))
}

// shownInClass reports whether the version has the quota in a quota class.
func (q quota) shownInClass(v compute.Version) bool {
	return (!q.network || !v.Has(compute.QuotaClassGroups)) && (!q.files || !v.Has(compute.NoPersonality)) &&
		(!q.groups || v.Has(compute.QuotaClassGroups))
}

// projectUse returns how much a project uses, by the name of the quota.
func (s *Handlers) projectUse(ctx context.Context, project string) (map[string]int, error) {
	use, err := s.Store.ProjectUse(ctx, project)
	return map[string]int{"instances": use.Servers, "cores": use.VCPUs, "ram": use.MemoryMB}, err
}

// checkOtherProject refuses a request about another project, unless a rule of the policy allows it.
func checkOtherProject(c *request.Call, rule, project string) error {
	if project == c.Who.Project {
		return nil
	}
	return request.AuthorizeOther(c, rule, "project "+edge.Clip(project), map[string]any{"project_id": project})
}

func (s *Handlers) showQuotas(c *request.Call) error {
	project := c.R.PathValue("project")
	if err := checkOtherProject(c, c.Spec.Rule, project); err != nil {
		return err
	}
	return writeQuotas(c, project, func(q quota) any { return q.limit })
}

// defaultQuotas is GET /v2.1/os-quota-sets/{project}/defaults: the same for all projects. Nova's rule is
// os_compute_api:os-quota-sets:defaults.
func (s *Handlers) defaultQuotas(c *request.Call) error {
	return writeQuotas(c, c.R.PathValue("project"), func(q quota) any { return q.limit })
}

// detailQuotas is GET /v2.1/os-quota-sets/{project}/detail: with what is used. Nova's rule is
// os_compute_api:os-quota-sets:detail.
func (s *Handlers) detailQuotas(c *request.Call) error {
	project := c.R.PathValue("project")
	if err := checkOtherProject(c, c.Spec.Rule, project); err != nil {
		return err
	}
	used, err := s.projectUse(c.R.Context(), project)
	if err != nil {
		return err
	}
	return writeQuotas(c, project, func(q quota) any {
		return map[string]int{"limit": q.limit, "in_use": used[q.name], "reserved": 0}
	})
}

func writeQuotas(c *request.Call, project string, view func(quota) any) error {
	set := map[string]any{"id": project}
	for _, q := range quotas {
		if q.shown(c.Microversion) {
			set[q.name] = view(q)
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"quota_set": set})
}

// showQuotaClass is GET /v2.1/os-quota-class-sets/{class}: all classes have the same quotas. Nova's rule is
// os_compute_api:os-quota-class-sets:show.
func (s *Handlers) showQuotaClass(c *request.Call) error {
	set := map[string]any{"id": c.R.PathValue("class")}
	for _, q := range quotas {
		if q.shownInClass(c.Microversion) {
			set[q.name] = q.limit
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"quota_class_set": set})
}

// showLimits is GET /v2.1/limits: the quotas of the caller's project with what it uses; admins choose another project
// with tenant_id. Nova's rules are os_compute_api:limits and, for another project, os_compute_api:limits:other_project.
func (s *Handlers) showLimits(c *request.Call) error {
	project := c.Who.Project
	if other := c.R.URL.Query().Get("tenant_id"); other != "" {
		if err := checkOtherProject(c, policies.ShowLimitsOfOther, other); err != nil {
			return err
		}
		project = other
	}
	used, err := s.projectUse(c.R.Context(), project)
	if err != nil {
		return err
	}
	absolute := map[string]int{}
	if !c.Has(compute.NoImageProxy) {
		absolute["maxImageMeta"] = request.MaxMetadata
	}
	for _, q := range quotas {
		if !q.shown(c.Microversion) || q.limitName == "" {
			continue
		}
		absolute[q.limitName] = q.limit
		if q.usedName != "" {
			absolute[q.usedName] = used[q.name]
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": absolute}})
}

package catalog

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// quotaRoutes returns the paths of quotas and limits.
func quotaRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/os-quota-sets/{project}": {
			http.MethodGet:    request.Guarded(policies.ShowQuotas, s.showQuotas),
			http.MethodPut:    request.Guarded(policies.UpdateQuotas, s.updateQuotas),
			http.MethodDelete: request.Guarded(policies.DeleteQuotas, s.resetQuotas),
		},
		"/v2.1/os-quota-sets/{project}/defaults": {
			http.MethodGet: request.Guarded(policies.DefaultQuotas, s.defaultQuotas),
		},
		"/v2.1/os-quota-sets/{project}/detail": {
			http.MethodGet: request.Guarded(policies.DetailQuotas, s.detailQuotas),
		},
		"/v2.1/os-quota-class-sets/{class}": {
			http.MethodGet: request.Guarded(policies.ShowQuotaClass, s.showQuotaClass),
			http.MethodPut: request.Guarded(policies.UpdateQuotaClass, s.updateQuotaClass),
		},
		"/v2.1/limits": {http.MethodGet: request.Guarded(policies.ShowLimits, s.showLimits)},
	}
}

// quotaResource is one of Nova's quotas, under its names in quotas and in limits.
type quotaResource struct {
	name, limitName, usedName string // an empty name: not shown there
	network                   bool   // removed from quotas and limits in 2.36, from quota classes in 2.50
	files                     bool   // removed in 2.57
	groups                    bool   // shown in quota classes since 2.50
}

// quotaResources lists the quotas of the API. Those of networks have values, and no effect.
var quotaResources = []quotaResource{
	{name: quota.Instances, limitName: "maxTotalInstances", usedName: "totalInstancesUsed"},
	{name: quota.Cores, limitName: "maxTotalCores", usedName: "totalCoresUsed"},
	{name: quota.RAM, limitName: "maxTotalRAMSize", usedName: "totalRAMUsed"},
	{name: quota.MetadataItems, limitName: "maxServerMeta"},
	{name: quota.KeyPairs, limitName: "maxTotalKeypairs"},
	{name: quota.ServerGroups, limitName: "maxServerGroups", usedName: "totalServerGroupsUsed", groups: true},
	{name: quota.ServerGroupMembers, limitName: "maxServerGroupMembers", groups: true},
	{name: quota.InjectedFiles, limitName: "maxPersonality", files: true},
	{name: quota.InjectedFileBytes, limitName: "maxPersonalitySize", files: true},
	{name: quota.InjectedPathBytes, files: true},
	{name: "fixed_ips", network: true},
	{name: "floating_ips", limitName: "maxTotalFloatingIps", usedName: "totalFloatingIpsUsed", network: true},
	{name: "security_groups", limitName: "maxSecurityGroups", usedName: "totalSecurityGroupsUsed", network: true},
	{name: "security_group_rules", limitName: "maxSecurityGroupRules", network: true},
}

// shown reports whether the version has the quota.
func (q quotaResource) shown(v compute.Version) bool {
	return (!q.network || !v.Has(compute.NoNetworkProxy)) && (!q.files || !v.Has(compute.NoPersonality))
}

// setInClass reports whether the version can set the quota of a quota class.
func (q quotaResource) setInClass(v compute.Version) bool {
	return (!q.network || !v.Has(compute.QuotaClassGroups)) && (!q.files || !v.Has(compute.NoPersonality))
}

// shownInClass reports whether the version shows the quota of a quota class.
func (q quotaResource) shownInClass(v compute.Version) bool {
	return q.setInClass(v) && (!q.groups || v.Has(compute.QuotaClassGroups))
}

// quotaNames returns the names of Nova's quotas that show selects, and those of the resource classes with a limit.
// Nothing else is shown: clients compare the keys with those that Nova documents.
func quotaNames(limits quota.Amounts, v compute.Version,
	show func(quotaResource, compute.Version) bool) (list []string) {
	for _, q := range quotaResources {
		if show(q, v) {
			list = append(list, q.name)
		}
	}
	for name, limit := range limits {
		if strings.HasPrefix(name, quota.ClassPrefix) && limit >= 0 {
			list = append(list, name)
		}
	}
	return list
}

// checkOtherProject refuses a request about another project, unless a rule of the policy allows it.
func checkOtherProject(c *request.Call, rule, project string) error {
	if project == c.Who.Project {
		return nil
	}
	return request.AuthorizeOther(c, rule, "project "+edge.Clip(project), map[string]any{"project_id": project})
}

// quotaOwner returns the project of the path, and the user of the query if there is one.
func quotaOwner(c *request.Call) (store.QuotaOwner, error) {
	o := store.QuotaOwner{Project: c.R.PathValue("project"), User: c.R.URL.Query().Get("user_id")}
	for what, id := range map[string]string{"the project": o.Project, "user_id": o.User} {
		if err := checkOwnerLength(what, id); err != nil {
			return o, err
		}
	}
	return o, checkOtherProject(c, c.Spec.Rule, o.Project)
}

// maxOwner is how many characters an owner of quotas has at most.
const maxOwner = 255

// checkOwnerLength returns fault.Invalid for an owner of quotas that is too long.
func checkOwnerLength(what, id string) error {
	if n := utf8.RuneCountInString(id); n > maxOwner {
		return fault.New(fault.Invalid, "%s has %d characters, more than %d.", what, n, maxOwner)
	}
	return nil
}

// quotas reads limits and what is used, under the names of the Compute API.
type quotas struct{ QuotaStore }

// limitsOf returns the limits of an owner.
func (s quotas) limitsOf(ctx context.Context, o store.QuotaOwner) (quota.Amounts, error) {
	limits, err := s.Limits(ctx, o.Project, o.User)
	return s.shown(limits.Effective()), err
}

// shown returns limits or use under the names of the Compute API.
func (s quotas) shown(a quota.Amounts) quota.Amounts {
	if s.LimitsElsewhere() {
		return a.ShownUnified()
	}
	return a
}

// classLimits returns the limits of a quota class.
func (s quotas) classLimits(ctx context.Context, class string) (quota.Amounts, error) {
	limits, err := s.ClassLimits(ctx, class)
	return s.shown(limits), err
}

// useOf returns what an owner uses.
func (s quotas) useOf(ctx context.Context, o store.QuotaOwner) (quota.Amounts, error) {
	use, err := s.QuotaUse(ctx, o.Project, o.User)
	return s.shown(use), err
}

// checkSettable returns fault.Forbidden (403) if limits cannot be set here.
func (s quotas) checkSettable() error {
	if !s.LimitsElsewhere() {
		return nil
	}
	return fault.New(fault.Forbidden,
		"quotas cannot be set here: [quota] driver is nova.quota.UnifiedLimitsDriver, so "+
			"the limits are those of Keystone; use `openstack registered limit` and `openstack limit`")
}

// Limit returns the limit of a resource for the caller; negative: unlimited.
func (s *Handlers) Limit(c *request.Call, resource string) (int, error) {
	limits, err := quotas{s.Quotas}.limitsOf(c.R.Context(), store.QuotaOwner{Project: c.Who.Project, User: c.Who.User})
	return limits.Limit(resource), err
}

// CheckMetadata returns fault.Forbidden (403) if a server of the caller may not have this number of metadata
// items.
func (s *Handlers) CheckMetadata(c *request.Call, items int) error {
	if items == 0 {
		return nil
	}
	limit, err := s.Limit(c, quota.MetadataItems)
	if err == nil && limit >= 0 && items > limit {
		err = fault.New(fault.Forbidden, "Maximum number of metadata items exceeds %d", limit)
	}
	return err
}

// showQuotas is GET /v2.1/os-quota-sets/{project}: the limits of the project or, with user_id, of a user in it.
func (s *Handlers) showQuotas(c *request.Call) error {
	o, err := quotaOwner(c)
	if err != nil {
		return err
	}
	limits, err := quotas{s.Quotas}.limitsOf(c.R.Context(), o)
	if err != nil {
		return err
	}
	return writeQuotas(c, o.Project, limits, func(name string) any { return limits.Limit(name) })
}

// defaultQuotas is GET /v2.1/os-quota-sets/{project}/defaults: the same for all projects. Nova's rule is
// os_compute_api:os-quota-sets:defaults.
func (s *Handlers) defaultQuotas(c *request.Call) error {
	limits, err := quotas{s.Quotas}.classLimits(c.R.Context(), store.DefaultClass)
	if err != nil {
		return err
	}
	return writeQuotas(c, c.R.PathValue("project"), limits, func(name string) any { return limits.Limit(name) })
}

// detailQuotas is GET /v2.1/os-quota-sets/{project}/detail: with what is used. Nova's rule is
// os_compute_api:os-quota-sets:detail.
func (s *Handlers) detailQuotas(c *request.Call) error {
	o, err := quotaOwner(c)
	if err != nil {
		return err
	}
	limits, err := quotas{s.Quotas}.limitsOf(c.R.Context(), o)
	if err != nil {
		return err
	}
	used, err := quotas{s.Quotas}.useOf(c.R.Context(), o)
	if err != nil {
		return err
	}
	return writeQuotas(c, o.Project, limits, func(name string) any {
		return map[string]int{"limit": limits.Limit(name), "in_use": used[name], "reserved": 0}
	})
}

// writeQuotas writes a quota set; an empty project is not shown.
func writeQuotas(c *request.Call, project string, limits quota.Amounts, view func(name string) any) error {
	set := map[string]any{}
	if project != "" {
		set["id"] = project
	}
	for _, name := range quotaNames(limits, c.Microversion, quotaResource.shown) {
		set[name] = view(name)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"quota_set": set})
}

// readLimits reads the limits in a body under a key. settable selects those of Nova's quotas that the version can set.
func readLimits(c *request.Call, under string, settable func(quotaResource, compute.Version) bool,
	others func(*edge.Object)) (quota.Amounts, error) {
	o, outer, err := c.Object(under)
	if err == nil {
		err = c.RefuseOthers(under, outer)
	}
	if err != nil {
		return nil, err
	}
	others(o)
	limits := quota.Amounts{}
	for _, name := range slices.Sorted(maps.Keys(o.Keys)) {
		class, isClass := strings.CutPrefix(name, quota.ClassPrefix)
		known := isClass && quota.IsClass(class) || slices.ContainsFunc(quotaResources, func(q quotaResource) bool {
			return q.name == name && settable(q, c.Microversion)
		})
		if limit := 0; known && o.Number(name, &limit, quota.Unlimited, quota.Most) {
			limits[name] = limit
		}
	}
	return limits, o.Finish()
}

// updateQuotas is PUT /v2.1/os-quota-sets/{project}. Nova's rule is os_compute_api:os-quota-sets:update.
func (s *Handlers) updateQuotas(c *request.Call) error {
	o, err := quotaOwner(c)
	if err == nil {
		err = quotas{s.Quotas}.checkSettable()
	}
	if err != nil {
		return err
	}
	force := false
	limits, err := readLimits(c, "quota_set", quotaResource.shown, func(o *edge.Object) { o.Flag("force", &force) })
	if err == nil && !force {
		err = quotas{s.Quotas}.checkLimits(c.R.Context(), o, limits)
	}
	if err == nil {
		err = s.Quotas.SetLimits(c.R.Context(), o, limits)
	}
	if err != nil {
		return err
	}
	now, err := quotas{s.Quotas}.limitsOf(c.R.Context(), o)
	if err != nil {
		return err
	}
	return writeQuotas(c, "", now, func(name string) any { return now.Limit(name) })
}

// checkLimits returns fault.Invalid (400) if a new limit is less than what is used, or if that of a user is more than
// that of the project.
func (s quotas) checkLimits(ctx context.Context, o store.QuotaOwner, limits quota.Amounts) error {
	used, err := s.useOf(ctx, o)
	if err != nil {
		return err
	}
	project := quota.Amounts{}
	if o.User != "" {
		if project, err = s.limitsOf(ctx, store.QuotaOwner{Project: o.Project}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		limit, most := limits[name], project.Limit(name)
		if limit >= 0 && limit < used[name] {
			return fault.New(fault.Invalid, "Quota limit %d for %s must be greater than or equal to already used and "+
				"reserved %d.", limit, name, used[name])
		}
		if most >= 0 && (limit < 0 || limit > most) {
			return fault.New(fault.Invalid, "Quota limit %d for %s must be less than or equal to %d.", limit, name,
				most)
		}
	}
	return nil
}

// resetQuotas is DELETE /v2.1/os-quota-sets/{project}: the defaults apply again, to the project and its users or, with
// user_id, to a user. Nova's rule is os_compute_api:os-quota-sets:delete.
func (s *Handlers) resetQuotas(c *request.Call) error {
	o, err := quotaOwner(c)
	if err == nil {
		err = quotas{s.Quotas}.checkSettable()
	}
	if err == nil {
		err = s.Quotas.ResetLimits(c.R.Context(), o.Project, o.User)
	}
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}

// showQuotaClass is GET /v2.1/os-quota-class-sets/{class}: the limits of `default` are those of all projects; others
// have no effect. Nova's rule is os_compute_api:os-quota-class-sets:show.
func (s *Handlers) showQuotaClass(c *request.Call) error {
	class := c.R.PathValue("class")
	return s.writeQuotaClass(c, class, map[string]any{"id": class})
}

// writeQuotaClass adds the limits of a class to a set, and writes it.
func (s *Handlers) writeQuotaClass(c *request.Call, class string, set map[string]any) error {
	limits, err := quotas{s.Quotas}.classLimits(c.R.Context(), class)
	if err != nil {
		return err
	}
	for _, name := range quotaNames(limits, c.Microversion, quotaResource.shownInClass) {
		set[name] = limits.Limit(name)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"quota_class_set": set})
}

// updateQuotaClass is PUT /v2.1/os-quota-class-sets/{class}. Nova's rule is os_compute_api:os-quota-class-sets:update.
func (s *Handlers) updateQuotaClass(c *request.Call) error {
	class := c.R.PathValue("class")
	err := checkOwnerLength("quota_class_name", class)
	if err == nil {
		err = quotas{s.Quotas}.checkSettable()
	}
	if err != nil {
		return err
	}
	limits, err := readLimits(c, "quota_class_set", quotaResource.setInClass, func(*edge.Object) {})
	if err == nil {
		err = s.Quotas.SetLimits(c.R.Context(), store.QuotaOwner{User: class}, limits)
	}
	if err != nil {
		return err
	}
	return s.writeQuotaClass(c, class, map[string]any{})
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
	limits, err := quotas{s.Quotas}.limitsOf(c.R.Context(), store.QuotaOwner{Project: project})
	if err != nil {
		return err
	}
	used, err := quotas{s.Quotas}.useOf(c.R.Context(), store.QuotaOwner{Project: project})
	if err != nil {
		return err
	}
	absolute := map[string]int{}
	if !c.Has(compute.NoImageProxy) {
		absolute["maxImageMeta"] = limits.Limit(quota.MetadataItems)
	}
	for _, q := range quotaResources {
		if !q.shown(c.Microversion) || q.limitName == "" {
			continue
		}
		absolute[q.limitName] = limits.Limit(q.name)
		if q.usedName != "" {
			absolute[q.usedName] = used[q.name]
		}
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"limits": map[string]any{"rate": []any{}, "absolute": absolute}})
}

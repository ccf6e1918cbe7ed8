package catalog

import (
	"net/http"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// usageRoutes returns the paths of usage.
func usageRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/os-simple-tenant-usage":           {http.MethodGet: request.Guarded(policies.ListUsage, s.listUsage)},
		"/v2.1/os-simple-tenant-usage/{project}": {http.MethodGet: request.Guarded(policies.ShowUsage, s.showUsage)},
	}
}

// usageQuery is the query of /os-simple-tenant-usage.
type usageQuery struct {
	start, end time.Time
	detailed   bool
	limit      int // servers of one page; 0: all
	marker     string
}

// readUsageQuery reads the query. The pages exist since 2.40.
func (s *Handlers) readUsageQuery(c *request.Call) (w usageQuery, err error) {
	q := c.R.URL.Query()
	w.start, w.end = s.Now().UTC(), s.Now().UTC()
	for key, into := range map[string]*time.Time{"start": &w.start, "end": &w.end} {
		if text := q.Get(key); text != "" {
			if *into, err = request.ParseTime(text); err != nil {
				return w, err
			}
		}
	}
	if w.start.After(w.end) {
		return w, fault.New(fault.Invalid, "Invalid start time. The start time cannot occur after the end time.")
	}
	w.detailed = q.Get("detailed") == "1"
	if c.Has(compute.UsagePages) {
		w.limit, w.marker, err = c.ReadPage(q)
	}
	return w, err
}

// usedServers lists the servers of the page that the query selects, of a project or of all, and the id of its last
// server if more may follow. They are sorted by project, start and id, and are known until their records are purged.
func (s *Handlers) usedServers(c *request.Call, project string, w usageQuery) (list []store.UsedServer, more string,
	err error) {
	list, err = s.Usages.UsedServers(c.R.Context(), store.UsageFilter{Project: project, From: w.start, To: w.end,
		Marker: w.marker, Limit: w.limit})
	if w.marker != "" && fault.Is(err, fault.Invalid) {
		err = fault.New(fault.Invalid, "marker [%s] not found", edge.Clip(w.marker))
	}
	if w.limit > 0 && len(list) == w.limit {
		more = list[len(list)-1].ID
	}
	return list, more, err
}

// listUsage is GET /v2.1/os-simple-tenant-usage: the usage of all projects. Nova's rule is
// os_compute_api:os-simple-tenant-usage:list.
func (s *Handlers) listUsage(c *request.Call) error { return s.writeUsage(c, "") }

func (s *Handlers) showUsage(c *request.Call) error {
	project := c.R.PathValue("project")
	if err := checkOtherProject(c, c.Spec.Rule, project); err != nil {
		return err
	}
	return s.writeUsage(c, project)
}

// writeUsage writes the usage of one project, with its servers, or of all.
func (s *Handlers) writeUsage(c *request.Call, project string) error {
	w, err := s.readUsageQuery(c)
	if err != nil {
		return err
	}
	list, more, err := s.usedServers(c, project, w)
	if err != nil {
		return err
	}
	var servers map[string]lifecycle.Server // nil: not shown
	if w.detailed || project != "" {
		ids := make([]string, 0, len(list))
		for _, one := range list {
			ids = append(ids, one.ID)
		}
		if servers, err = s.Usages.ListedServers(c.R.Context(), ids); err != nil {
			return err
		}
	}
	usages := projectUsages(list, w, s.Now(), servers)
	body := map[string]any{}
	key := "tenant_usage"
	switch {
	case project == "":
		key = "tenant_usages"
		body[key] = usages
	case len(usages) == 0:
		body[key] = map[string]any{}
	default:
		body[key] = usages[0]
	}
	if more != "" {
		body[key+"_links"] = c.NextLinks(w.limit, w.limit, more)
	}
	return c.WriteJSON(http.StatusOK, body)
}

// projectUsages sums the usage of servers, which are sorted by project. now is the end of a server that still exists.
// The servers are shown unless they are nil.
func projectUsages(list []store.UsedServer, w usageQuery, now time.Time,
	servers map[string]lifecycle.Server) []compute.ProjectUsage {
	usages := []compute.ProjectUsage{}
	for _, one := range list {
		if n := len(usages); n == 0 || usages[n-1].ProjectID != one.Project {
			u := compute.ProjectUsage{ProjectID: one.Project, Start: request.Micros(w.start),
				Stop: request.Micros(w.end)}
			if servers != nil {
				u.Servers = &[]compute.ServerUsage{}
			}
			usages = append(usages, u)
		}
		u, hours := &usages[len(usages)-1], w.hours(one, now)
		u.Hours += hours
		u.VCPUs += hours * float64(one.VCPUs)
		u.RAM += hours * float64(one.MemoryMB)
		u.Disk += hours * float64(one.DiskGB)
		if shown, ok := servers[one.ID]; ok { // otherwise purged meanwhile
			*u.Servers = append(*u.Servers, serverUsage(shown, one, hours, now))
		}
	}
	return usages
}

// hours returns how long a server ran in the period.
func (w usageQuery) hours(one store.UsedServer, now time.Time) float64 {
	from, to := one.Launched, one.Ended
	if to.IsZero() {
		to = now
	}
	if from.Before(w.start) {
		from = w.start
	}
	if to.After(w.end) {
		to = w.end
	}
	return max(0, to.Sub(from).Hours())
}

// serverUsage returns what a server used in the period. Its flavor counts as it is now: the history has no sizes.
func serverUsage(one lifecycle.Server, used store.UsedServer, hours float64, now time.Time) compute.ServerUsage {
	end, state := now, one.VMState()
	if !one.Ended.IsZero() {
		end, state = one.Ended, "terminated"
	}
	return compute.ServerUsage{ID: one.ID, Name: one.Name, ProjectID: one.Project, Flavor: one.Shown().Flavor.Name,
		VCPUs: used.VCPUs, RAM: used.MemoryMB, Disk: used.DiskGB, Hours: hours,
		Started: request.Micros(one.Launched), Ended: request.MicrosOrNull(one.Ended), State: state,
		Uptime: max(0, int(end.Sub(one.Launched).Seconds()))}
}

package server

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// usageQuery is the query of /os-simple-tenant-usage.
type usageQuery struct {
	start, end time.Time
	detailed   bool
	limit      int // servers of one page; 0: all
	marker     string
}

// readUsageQuery reads the query. The pages exist since 2.40.
func (s *server) readUsageQuery(c *call) (w usageQuery, err error) {
	q := c.R.URL.Query()
	w.start, w.end = s.Now().UTC(), s.Now().UTC()
	for key, into := range map[string]*time.Time{"start": &w.start, "end": &w.end} {
		if text := q.Get(key); text != "" {
			if *into, err = parseTime(text); err != nil {
				return w, err
			}
		}
	}
	if w.start.After(w.end) {
		return w, fault.New(fault.Invalid, "", "Invalid start time. The start time cannot occur after the end time.")
	}
	w.detailed = q.Get("detailed") == "1"
	if c.version.Has(compute.UsagePages) {
		w.limit, w.marker, err = c.readPage(q)
	}
	return w, err
}

// usedServers lists the servers of a project, or of all, that ran in the period: sorted by project, start and id. They
// are known until their records are purged.
func (s *server) usedServers(c *call, project string, w usageQuery) ([]lifecycle.Server, error) {
	var list []lifecycle.Server
	f := store.ServerFilter{Project: project, ExistedSince: w.start, CreatedUntil: w.end}
	err := s.eachServer(c.R.Context(), f, func(one lifecycle.Server) {
		if !one.Launched.IsZero() && !one.Launched.After(w.end) {
			list = append(list, one)
		}
	})
	slices.SortFunc(list, func(a, b lifecycle.Server) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), a.Launched.Compare(b.Launched), cmp.Compare(a.ID, b.ID))
	})
	return list, err
}

// usagePage returns the servers of the page that the query selects, and the id of its last server if more follow.
func usagePage(list []lifecycle.Server, w usageQuery) (page []lifecycle.Server, more string, err error) {
	if w.marker != "" {
		at := slices.IndexFunc(list, func(one lifecycle.Server) bool { return one.ID == w.marker })
		if at < 0 {
			return nil, "", fault.New(fault.Invalid, "", "marker [%s] not found", clip(w.marker))
		}
		list = list[at+1:]
	}
	if w.limit == 0 || len(list) < w.limit {
		return list, "", nil
	}
	list = list[:w.limit]
	return list, list[len(list)-1].ID, nil
}

// listUsage is GET /v2.1/os-simple-tenant-usage: the usage of all projects. Nova's rule is
// os_compute_api:os-simple-tenant-usage:list.
func (s *server) listUsage(c *call) error { return s.writeUsage(c, "") }

// showUsage is GET /v2.1/os-simple-tenant-usage/{project}. Nova's rule is os_compute_api:os-simple-tenant-usage:show.
func (s *server) showUsage(c *call) error {
	project := c.R.PathValue("project")
	if err := checkOtherProject(c, c.Spec.Rule, project); err != nil {
		return err
	}
	return s.writeUsage(c, project)
}

// writeUsage writes the usage of one project, with its servers, or of all.
func (s *server) writeUsage(c *call, project string) error {
	w, err := s.readUsageQuery(c)
	if err != nil {
		return err
	}
	list, err := s.usedServers(c, project, w)
	if err != nil {
		return err
	}
	list, more, err := usagePage(list, w)
	if err != nil {
		return err
	}
	usages := projectUsages(list, w, s.Now(), w.detailed || project != "")
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
		body[key+"_links"] = c.nextLinks(w.limit, w.limit, more)
	}
	return c.writeJSON(http.StatusOK, body)
}

// projectUsages sums the usage of servers, which are sorted by project. now is the end of a server that still exists.
func projectUsages(list []lifecycle.Server, w usageQuery, now time.Time, detailed bool) []compute.ProjectUsage {
	usages := []compute.ProjectUsage{}
	for _, one := range list {
		if n := len(usages); n == 0 || usages[n-1].ProjectID != one.Project {
			u := compute.ProjectUsage{ProjectID: one.Project, Start: apiMicros(w.start), Stop: apiMicros(w.end)}
			if detailed {
				u.Servers = &[]compute.ServerUsage{}
			}
			usages = append(usages, u)
		}
		u, v := &usages[len(usages)-1], serverUsage(one, w, now)
		u.Hours += v.Hours
		u.VCPUs += v.Hours * float64(v.VCPUs)
		u.RAM += v.Hours * float64(v.RAM)
		u.Disk += v.Hours * float64(v.Disk)
		if detailed {
			*u.Servers = append(*u.Servers, v)
		}
	}
	return usages
}

// serverUsage returns what a server used in the period. Its flavor counts as it is now: the history has no sizes.
func serverUsage(one lifecycle.Server, w usageQuery, now time.Time) compute.ServerUsage {
	f := one.Shown().Flavor
	end, state := now, one.VMState()
	if !one.Ended.IsZero() {
		end, state = one.Ended, "terminated"
	}
	from, to := one.Launched, end
	if from.Before(w.start) {
		from = w.start
	}
	if to.After(w.end) {
		to = w.end
	}
	return compute.ServerUsage{ID: one.ID, Name: one.Name, ProjectID: one.Project, Flavor: f.Name, VCPUs: f.VCPUs,
		RAM: f.MemoryMB, Disk: f.DiskGB + f.Ephemeral, Hours: max(0, to.Sub(from).Hours()),
		Started: apiMicros(one.Launched), Ended: micros(one.Ended), State: state,
		Uptime: max(0, int(end.Sub(one.Launched).Seconds()))}
}

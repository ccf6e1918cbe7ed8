package cli

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// QuotaCmd groups the commands on quotas.
type QuotaCmd struct {
	List  quotaList  `cmd:"" help:"List projects with their limits and what they use. Only for administrators."`
	Show  quotaShow  `cmd:"" help:"Show the limits of a project, and what it uses."`
	Set   quotaSet   `cmd:"" help:"Set limits of a project."`
	Reset quotaReset `cmd:"" help:"Give a project the default limits again."`
}

// quotaService is a service with quotas.
type quotaService struct {
	name        string
	client      func(*Globals) *rest.Client
	path, key   string // of the limits of a project, and the key of an answer
	detail      string // the end of the path with what is used
	used        string // the attribute with what is used
	notResource map[string]bool
}

// quotaServices are the services with quotas.
var quotaServices = []quotaService{
	{name: "compute", client: computeService, path: "/v2.1/os-quota-sets/", key: "quota_set", detail: "/detail",
		used: "in_use", notResource: map[string]bool{"id": true}},
	{name: "network", client: networkService, path: "/v2.0/quotas/", key: "quota", detail: "/details", used: "used",
		notResource: map[string]bool{"project_id": true, "tenant_id": true}},
}

// quotaLimit is a limit of a project, and what it uses.
type quotaLimit struct {
	Service  string `json:"service"`
	Resource string `json:"resource"`
	Limit    string `json:"limit"` // -1: none
	Used     string `json:"used"`
}

// limits returns the limits of a project, sorted by name.
func (s quotaService) limits(ctx context.Context, g *Globals, project string) ([]quotaLimit, error) {
	answer, err := s.client(g).Do(ctx, http.MethodGet, s.path+pathEscape(project)+s.detail, nil, nil)
	if err != nil {
		return nil, err
	}
	var body map[string]document
	if err := decode(answer.Body, &body); err != nil {
		return nil, err
	}
	list := []quotaLimit{}
	for _, resource := range sortedKeys(body[s.key]) {
		amounts, is := body[s.key][resource].(map[string]any)
		if !is || s.notResource[resource] {
			continue
		}
		list = append(list, quotaLimit{s.name, resource, valueText("", amounts["limit"]),
			valueText("", amounts[s.used])})
	}
	return list, nil
}

// allLimits returns the limits of a project in all services. A service that does not answer is left out with a note.
func allLimits(ctx context.Context, g *Globals, project string) (list []quotaLimit, err error) {
	var failed error
	for _, s := range quotaServices {
		some, err := s.limits(ctx, g, project)
		if err != nil {
			failed = err
			continue
		}
		list = append(list, some...)
	}
	if len(list) == 0 {
		return nil, failed
	}
	return list, failed
}

// quotaShow shows the limits of a project.
type quotaShow struct {
	Project string `arg:"" help:"Id of the project; with noauth2 and http_basic its name."`
}

// Run prints the limits.
func (c *quotaShow) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	return printLimits(ctx, g, c.Project)
}

// printLimits prints the limits of a project, also if one of the services does not answer.
func printLimits(ctx context.Context, g *Globals, project string) error {
	list, failed := allLimits(ctx, g, project)
	if len(list) == 0 && failed != nil {
		return failed
	}
	err := printList(g, list, "Service", false, []column[quotaLimit]{
		{name: "Service", text: func(l quotaLimit) string { return l.Service }},
		{name: "Resource", text: func(l quotaLimit) string { return l.Resource }},
		{name: "Limit", text: func(l quotaLimit) string { return unlimited(l.Limit) }},
		{name: "Used", text: func(l quotaLimit) string { return l.Used }},
	})
	if err == nil {
		err = failed
	}
	return err
}

func unlimited(limit string) string {
	if limit == "-1" {
		return "none"
	}
	return limit
}

// quotaList lists the limits of projects.
type quotaList struct {
	All bool `help:"Also resources of which nothing is used."`
}

// projectLimit is a limit of a project.
type projectLimit struct {
	Project string `json:"project"`
	quotaLimit
}

// Run prints what projects use and may use: those with servers, with ports, or with own limits in the network service.
func (c *quotaList) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	projects, err := usingProjects(ctx, g)
	if err != nil {
		return err
	}
	list := []projectLimit{}
	limits, failed := limitsOf(ctx, g, projects)
	for i, project := range projects {
		for _, l := range limits[i] {
			if c.All || l.Used != "0" {
				list = append(list, projectLimit{project, l})
			}
		}
	}
	err = printList(g, list, "Project", false, []column[projectLimit]{
		{name: "Project", text: func(l projectLimit) string { return l.Project }},
		{name: "Service", text: func(l projectLimit) string { return l.Service }},
		{name: "Resource", text: func(l projectLimit) string { return l.Resource }},
		{name: "Limit", text: func(l projectLimit) string { return unlimited(l.Limit) }},
		{name: "Used", text: func(l projectLimit) string { return l.Used }},
	})
	return cmp.Or(err, failed)
}

// projectsAtOnce is how many projects are read at once: no service has a list with the limits and the use of all.
const projectsAtOnce = 8

// limitsOf returns the limits of each project, and the first error.
func limitsOf(ctx context.Context, g *Globals, projects []string) ([][]quotaLimit, error) {
	g.account() // before it is used concurrently
	limits, failed := make([][]quotaLimit, len(projects)), make([]error, len(projects))
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(projectsAtOnce, len(projects)) {
		wait.Go(func() {
			for i := range next {
				limits[i], failed[i] = allLimits(ctx, g, projects[i])
			}
		})
	}
	for i := range projects {
		next <- i
	}
	close(next)
	wait.Wait()
	return limits, cmp.Or(failed...)
}

// usingProjects returns the projects that have servers, ports or own limits of the network service, sorted. Compute has
// no list of projects with own limits.
func usingProjects(ctx context.Context, g *Globals) ([]string, error) {
	found := map[string]bool{}
	if err := addServerProjects(ctx, g, found); err != nil {
		return nil, err
	}
	for _, k := range []*kind{kinds["port"], {path: "/v2.0/quotas", all: "quotas", service: networkService}} {
		filter := url.Values{}
		if k.paging != "" {
			filter["fields"] = []string{"id", "project_id"}
		}
		list, err := k.list(ctx, g, filter)
		if err != nil {
			return nil, err
		}
		for _, one := range list {
			found[one.text("project_id")] = true
		}
	}
	delete(found, "") // a port of a service
	return sortedKeys(found), nil
}

// addServerProjects adds the projects that have servers, without reading all servers. The usage up to now has an entry
// for each project with a server that has run; its answer is in one part before microversion 2.40. The others are being
// built or are in ERROR.
func addServerProjects(ctx context.Context, g *Globals, found map[string]bool) error {
	client := computeService(g).WithHeader(compute.VersionHeader, compute.Service+" 2.1").
		WithHeader(compute.LegacyVersionHeader, "2.1")
	var usage struct {
		Projects []compute.ProjectUsage `json:"tenant_usages"`
	}
	if _, err := client.Do(ctx, http.MethodGet, "/v2.1/os-simple-tenant-usage", nil, &usage); err != nil {
		return err
	}
	for _, p := range usage.Projects {
		found[p.ProjectID] = true
	}
	for _, status := range []string{"BUILD", "ERROR"} {
		servers, err := g.compute().Servers(ctx, compute.ListServers{AllProjects: true, Status: status})
		if err != nil {
			return err
		}
		for _, s := range servers {
			found[s.ProjectID] = true
		}
	}
	return nil
}

// quotaSet sets limits of a project.
type quotaSet struct {
	Project string            `arg:"" help:"Id of the project; with noauth2 and http_basic its name."`
	Limits  map[string]string `arg:"" name:"resource=limit" help:"Limits, such as instances=20 cores=40 port=100; -1 or none for no limit."`
}

// Run sets the limits and prints all. Nothing is set if a resource is not known.
func (c *quotaSet) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	changes := make([]map[string]any, len(quotaServices))
	known, all := map[string]int{}, []string{}
	for i, s := range quotaServices {
		changes[i] = map[string]any{}
		list, err := s.limits(ctx, g, c.Project)
		if err != nil {
			return err
		}
		for _, l := range list {
			known[l.Resource], all = i, append(all, l.Resource)
		}
	}
	for _, resource := range sortedKeys(c.Limits) {
		text := c.Limits[resource]
		if text == none {
			text = "-1"
		}
		limit, err := strconv.Atoi(text)
		i, is := known[resource]
		switch {
		case !is:
			return fault.New(fault.NotFound, "no service has a limit for %q; %s", resource, fault.DidYouMean(resource, all,
				"`berth quota show "+c.Project+"` shows all"))
		case err != nil || limit < -1:
			return fault.New(fault.Invalid, "%s=%s is not valid: write a number, or none", resource, c.Limits[resource])
		}
		changes[i][resource] = limit
	}
	for i, s := range quotaServices {
		if len(changes[i]) == 0 {
			continue
		}
		_, err := s.client(g).Do(ctx, http.MethodPut, s.path+pathEscape(c.Project), map[string]any{s.key: changes[i]}, nil)
		if err != nil {
			return err
		}
	}
	return printLimits(ctx, g, c.Project)
}

// quotaReset removes the limits of a project.
type quotaReset struct {
	Project string `arg:"" help:"Id of the project; with noauth2 and http_basic its name."`
}

// Run removes the limits of the project in each service and prints the defaults.
func (c *quotaReset) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	for _, s := range quotaServices {
		if _, err := s.client(g).Do(ctx, http.MethodDelete, s.path+pathEscape(c.Project), nil, nil); err != nil &&
			!fault.Is(err, fault.NotFound) { // it has the defaults already
			return err
		}
	}
	return printLimits(ctx, g, c.Project)
}

package server

import (
	"cmp"
	"context"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// hypervisorRoutes returns the paths of hypervisors.
func (s *server) hypervisorRoutes() request.Routes {
	return request.Routes{
		"/v2.1/os-hypervisors": {http.MethodGet: request.Guarded(policies.ListHypervisors, s.listHypervisors)},
		"/v2.1/os-hypervisors/detail": {
			http.MethodGet: request.Guarded(policies.DetailHypervisors, s.detailHypervisors),
		},
		"/v2.1/os-hypervisors/statistics": {
			http.MethodGet: request.Guarded(policies.HypervisorStatistics, s.hypervisorStatistics),
		},
		"/v2.1/os-hypervisors/{id}": {http.MethodGet: request.Guarded(policies.ShowHypervisor, s.showHypervisor)},
		"/v2.1/os-hypervisors/{id}/uptime": {
			http.MethodGet: request.Guarded(policies.HypervisorUptime, s.hypervisorUptime),
		},
		"/v2.1/os-hypervisors/{id}/search": {
			http.MethodGet: request.Until(compute.ServiceUUID, request.Guarded(policies.SearchHypervisors,
				s.searchHypervisors(false))),
		},
		"/v2.1/os-hypervisors/{id}/servers": {
			http.MethodGet: request.Until(compute.ServiceUUID, request.Guarded(policies.HypervisorServers,
				s.searchHypervisors(true))),
		},
	}
}

// hypervisor is a host as a hypervisor.
type hypervisor struct {
	schedule.Host
	position int // in the list of all hosts, from 0: its service's id before 2.53
	up       bool
	status   string  // of its service: enabled or disabled
	reason   *string // why it is disabled; nil: none is given
}

// hypervisors lists the hosts whose agents have reported, sorted by name.
func (s *server) hypervisors(ctx context.Context) ([]hypervisor, error) {
	hosts, dead, err := s.HostsAndDead(ctx)
	if err != nil {
		return nil, err
	}
	disabled, err := s.Store.DisabledHosts(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]hypervisor, 0, len(hosts))
	for i, h := range hosts {
		status, reason := serviceStatusOf(disabled, h.Name)
		up := !slices.Contains(dead, h.Name) && s.Works(h)
		list = append(list, hypervisor{h, i, up, status, reason})
	}
	return list, nil
}

// hypervisorID returns the id of a hypervisor: the UUID of its root provider since 2.53; before, the first 48 bits of
// that UUID, so that the id does not change when hosts are added.
func hypervisorID(c *request.Call, h hypervisor) any {
	if c.Has(compute.ServiceUUID) {
		return string(h.Provider)
	}
	id, err := uuid.Parse(string(h.Provider))
	if err != nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(id[:8]) >> 16)
}

// listHypervisors is GET /v2.1/os-hypervisors. Nova's rule is os_compute_api:os-hypervisors:list.
func (s *server) listHypervisors(c *request.Call) error {
	return s.writeHypervisors(c, func(page []hypervisor) ([]any, error) {
		views := make([]any, 0, len(page))
		for _, h := range page {
			v, err := s.hypervisorRef(c, h)
			if err != nil {
				return nil, err
			}
			views = append(views, v)
		}
		return views, nil
	})
}

// detailHypervisors is GET /v2.1/os-hypervisors/detail. Nova's rule is os_compute_api:os-hypervisors:list-detail.
func (s *server) detailHypervisors(c *request.Call) error {
	return s.writeHypervisors(c, func(page []hypervisor) ([]any, error) {
		amounts, err := s.amountsOf(c.R.Context(), page)
		if err != nil {
			return nil, err
		}
		views := make([]any, 0, len(page))
		for i, h := range page {
			v, err := s.hypervisor(c, h, amounts[i])
			if err != nil {
				return nil, err
			}
			views = append(views, v)
		}
		return views, nil
	})
}

// writeHypervisors writes the page of hypervisors that the query selects.
func (s *server) writeHypervisors(c *request.Call, view func([]hypervisor) ([]any, error)) error {
	list, err := s.hypervisors(c.R.Context())
	if err != nil {
		return err
	}
	q := c.R.URL.Query()
	if part := q.Get("hypervisor_hostname_pattern"); part != "" && c.Has(compute.ServiceUUID) {
		if list = withNamePart(list, part); len(list) == 0 {
			return noHypervisors(part)
		}
	}
	limit := len(list) // all, before there are pages
	if c.Has(compute.HypervisorPages) {
		var marker string
		if limit, marker, err = c.ReadPage(q); err != nil {
			return err
		}
		if marker != "" {
			at := slices.IndexFunc(list, func(h hypervisor) bool { return hasID(c, h, marker) })
			if at < 0 {
				return fault.New(fault.Invalid, "marker [%s] not found", request.Clip(marker))
			}
			list = list[at+1:]
		}
	}
	body := map[string]any{}
	if len(list) > limit {
		if list = list[:limit]; limit > 0 {
			body["hypervisors_links"] = c.NextLinks(limit, limit, idText(c, list[limit-1]))
		}
	}
	if body["hypervisors"], err = view(list); err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, body)
}

// idText returns the id of a hypervisor as it is in paths.
func idText(c *request.Call, h hypervisor) string {
	switch id := hypervisorID(c, h).(type) {
	case int64:
		return strconv.FormatInt(id, 10)
	case string:
		return id
	}
	return ""
}

func hasID(c *request.Call, h hypervisor, id string) bool { return idText(c, h) == id }

func withNamePart(list []hypervisor, part string) []hypervisor {
	return slices.DeleteFunc(list, func(h hypervisor) bool { return !strings.Contains(h.Name, part) })
}

func noHypervisors(part string) error {
	return fault.New(fault.NotFound, "No hypervisor matching '%s' could be found.", request.Clip(part))
}

// searchHypervisors is GET /v2.1/os-hypervisors/{id}/search, and with servers GET …/{id}/servers (both until 2.52);
// {id} is a part of the name. Nova's rules are os_compute_api:os-hypervisors:search and :servers.
func (s *server) searchHypervisors(servers bool) func(*request.Call) error {
	return func(c *request.Call) error {
		list, err := s.hypervisors(c.R.Context())
		if err != nil {
			return err
		}
		if list = withNamePart(list, c.R.PathValue("id")); len(list) == 0 {
			return noHypervisors(c.R.PathValue("id"))
		}
		views := make([]compute.HypervisorRef, 0, len(list))
		for _, h := range list {
			v := refView(c, h)
			if servers {
				if v.Servers, err = s.hypervisorServers(c.R.Context(), h.Name); err != nil {
					return err
				}
			}
			views = append(views, v)
		}
		return c.WriteJSON(http.StatusOK, map[string]any{"hypervisors": views})
	}
}

// findHypervisor returns the hypervisor of the path.
func (s *server) findHypervisor(c *request.Call) (hypervisor, error) {
	list, err := s.hypervisors(c.R.Context())
	if err != nil {
		return hypervisor{}, err
	}
	for _, h := range list {
		if hasID(c, h, c.R.PathValue("id")) {
			return h, nil
		}
	}
	return hypervisor{}, fault.New(fault.NotFound, "Hypervisor with ID '%s' could not be found.",
		request.Clip(c.R.PathValue("id")))
}

// showHypervisor is GET /v2.1/os-hypervisors/{id}. Nova's rule is os_compute_api:os-hypervisors:show.
func (s *server) showHypervisor(c *request.Call) error {
	h, err := s.findHypervisor(c)
	if err != nil {
		return err
	}
	amounts, err := s.amountsOf(c.R.Context(), []hypervisor{h})
	if err != nil {
		return err
	}
	v, err := s.hypervisor(c, h, amounts[0])
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"hypervisor": v})
}

// hypervisorUptime is GET /v2.1/os-hypervisors/{id}/uptime. Nova's rule is os_compute_api:os-hypervisors:uptime.
func (s *server) hypervisorUptime(c *request.Call) error {
	if _, err := s.findHypervisor(c); err != nil {
		return err
	}
	return request.NotImplemented("Berth does not implement the uptime of a hypervisor: agents do not report it")
}

// hypervisorStatistics is GET /v2.1/os-hypervisors/statistics. Nova's rule is
// os_compute_api:os-hypervisors:statistics.
func (s *server) hypervisorStatistics(c *request.Call) error {
	list, err := s.hypervisors(c.R.Context())
	if err != nil {
		return err
	}
	amounts, err := s.amountsOf(c.R.Context(), list)
	if err != nil {
		return err
	}
	var sum compute.HypervisorStatistics
	for _, a := range amounts {
		sum.Count++
		sum.VCPUs, sum.VCPUsUsed = sum.VCPUs+a.VCPUs, sum.VCPUsUsed+a.VCPUsUsed
		sum.RAM, sum.RAMUsed, sum.RAMFree = sum.RAM+a.RAM, sum.RAMUsed+a.RAMUsed, sum.RAMFree+a.RAMFree
		sum.Disk, sum.DiskUsed, sum.DiskFree = sum.Disk+a.Disk, sum.DiskUsed+a.DiskUsed, sum.DiskFree+a.DiskFree
		sum.Servers, sum.Workload = sum.Servers+a.Servers, sum.Workload+a.Workload
	}
	sum.DiskAvailable = &sum.DiskFree
	return c.WriteJSON(http.StatusOK, map[string]any{"hypervisor_statistics": sum})
}

// refView returns the view of a hypervisor without detail.
func refView(c *request.Call, h hypervisor) compute.HypervisorRef {
	v := compute.HypervisorRef{ID: hypervisorID(c, h), Hostname: h.Name, State: "down", Status: h.status}
	if h.up {
		v.State = "up"
	}
	return v
}

// hypervisorRef adds the servers if the query asks for them (2.53).
func (s *server) hypervisorRef(c *request.Call, h hypervisor) (v compute.HypervisorRef, err error) {
	v = refView(c, h)
	if with, _ := request.ParseBool(c.R.URL.Query().Get("with_servers")); with && c.Has(compute.ServiceUUID) {
		v.Servers, err = s.hypervisorServers(c.R.Context(), h.Name)
	}
	return v, err
}

// hypervisor returns the view of a hypervisor in detail.
func (s *server) hypervisor(c *request.Call, h hypervisor, amounts compute.HypervisorAmounts) (v compute.Hypervisor,
	err error) {
	if v.HypervisorRef, err = s.hypervisorRef(c, h); err != nil {
		return v, err
	}
	v.Service = compute.HypervisorService{ID: h.position + 1, Host: h.Name, DisabledReason: h.reason}
	if c.Has(compute.ServiceUUID) {
		v.Service.ID = serviceID(h.Name)
	}
	v.Type, v.CPUInfo = cmp.Or(h.Hypervisor, "berth"), any("")
	if c.Has(compute.CPUInfoObject) {
		v.CPUInfo = struct{}{}
	}
	v.HypervisorAmounts = amounts
	return v, nil
}

// hypervisorServers lists the servers on a host.
func (s *server) hypervisorServers(ctx context.Context, host string) ([]compute.HypervisorServer, error) {
	var list []compute.HypervisorServer
	for f := (store.ServerFilter{Host: host}); ; {
		page, err := s.Store.ServerRefs(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, one := range page {
			list = append(list, compute.HypervisorServer{UUID: one.ID, Name: one.Name})
		}
		if len(page) < store.MaxPage {
			return list, nil
		}
		f.Marker = page[len(page)-1].ID
	}
}

// eachServer reads the servers that a filter selects, page by page.
func (s *server) eachServer(ctx context.Context, f store.ServerFilter, visit func(lifecycle.Server)) error {
	for {
		list, err := s.Store.ListServers(ctx, f)
		if err != nil {
			return err
		}
		for _, one := range list {
			visit(one)
		}
		if len(list) < store.MaxPage {
			return nil
		}
		f.Marker = list[len(list)-1].ID
	}
}

// placementCalls is the number of requests to Placement at a time for a list of hypervisors, each of which needs two.
const placementCalls = 8

// amountsOf returns what hosts have and use, from the inventories and usages of their providers in Placement, and the
// number of their servers.
func (s *server) amountsOf(ctx context.Context, list []hypervisor) ([]compute.HypervisorAmounts, error) {
	only := ""
	if len(list) == 1 {
		only = list[0].Name
	}
	loads, err := s.Store.HostLoads(ctx, only)
	if err != nil {
		return nil, err
	}
	amounts := make([]compute.HypervisorAmounts, len(list))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(placementCalls, len(list)) {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var err error
				if amounts[i], err = s.hypervisorAmounts(ctx, list[i], loads[list[i].Name]); err != nil {
					cancel(err)
				}
			}
		})
	}
	running.Wait()
	return amounts, context.Cause(ctx)
}

// hypervisorAmounts returns what a host with this load has and uses.
func (s *server) hypervisorAmounts(ctx context.Context, h hypervisor, load store.HostLoad) (
	a compute.HypervisorAmounts, err error) {
	total, used, err := s.placementAmounts(ctx, h.Provider)
	a.Servers, a.Workload = load.Servers, load.Busy
	a.VCPUs, a.VCPUsUsed = total["VCPU"]+total["PCPU"], used["VCPU"]+used["PCPU"]
	a.RAM, a.RAMUsed, a.RAMFree = total["MEMORY_MB"], used["MEMORY_MB"], total["MEMORY_MB"]-used["MEMORY_MB"]
	a.Disk, a.DiskUsed, a.DiskFree = total["DISK_GB"], used["DISK_GB"], total["DISK_GB"]-used["DISK_GB"]
	a.DiskAvailable = &a.DiskFree
	return a, err
}

// placementAmounts returns the totals and the usage of a host's root provider; nothing if Placement does not have it.
func (s *server) placementAmounts(ctx context.Context, root provider.ID) (total, used resource.Amounts, err error) {
	total = resource.Amounts{}
	if s.Providers == nil {
		return total, nil, nil
	}
	set, err := s.Providers.Inventories(ctx, root)
	if err == nil {
		used, err = s.Providers.Usages(ctx, root)
	}
	if fault.Is(err, fault.NotFound) {
		return total, nil, nil
	}
	for class, inventory := range set.Inventories {
		total[class] = inventory.Total
	}
	return total, used, err
}

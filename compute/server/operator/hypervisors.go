package operator

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// hypervisorRoutes returns the paths of hypervisors.
func hypervisorRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/os-hypervisors": {http.MethodGet: request.Guarded(policies.ListHypervisors, s.listHypervisors)},
		"/v2.1/os-hypervisors/detail": {
			http.MethodGet: request.Guarded(policies.DetailHypervisors, s.detailHypervisors),
		},
		"/v2.1/os-hypervisors/statistics": {
			http.MethodGet: request.Until(compute.HypervisorUptime,
				request.Guarded(policies.HypervisorStatistics, s.hypervisorStatistics)),
		},
		"/v2.1/os-hypervisors/{id}": {http.MethodGet: request.Guarded(policies.ShowHypervisor, s.showHypervisor)},
		"/v2.1/os-hypervisors/{id}/uptime": {
			http.MethodGet: request.Until(compute.HypervisorUptime,
				request.Guarded(policies.HypervisorUptime, s.hypervisorUptime)),
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

// hypervisorID returns the id of a hypervisor: the UUID of its root provider since 2.53; before, the first 48 bits of
// that UUID, so that the id does not change when hosts are added.
func hypervisorID(c *request.Call, h hostState) any {
	if c.Has(compute.ServiceUUID) {
		return string(h.Provider)
	}
	id, err := uuid.Parse(string(h.Provider))
	if err != nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(id[:8]) >> 16)
}

func (s *Handlers) listHypervisors(c *request.Call) error {
	return s.writeHypervisors(c, func(page []hostState) ([]any, error) {
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

func (s *Handlers) detailHypervisors(c *request.Call) error {
	return s.writeHypervisors(c, func(page []hostState) ([]any, error) {
		amounts, err := s.shownAmounts(c, page)
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
func (s *Handlers) writeHypervisors(c *request.Call, view func([]hostState) ([]any, error)) error {
	list, err := s.hostStates(c.R.Context())
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
			at := slices.IndexFunc(list, func(h hostState) bool { return hasID(c, h, marker) })
			if at < 0 {
				return fault.New(fault.Invalid, "marker [%s] not found", edge.Clip(marker))
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
func idText(c *request.Call, h hostState) string {
	switch id := hypervisorID(c, h).(type) {
	case int64:
		return strconv.FormatInt(id, 10)
	case string:
		return id
	}
	return ""
}

func hasID(c *request.Call, h hostState, id string) bool { return idText(c, h) == id }

func withNamePart(list []hostState, part string) []hostState {
	return slices.DeleteFunc(list, func(h hostState) bool { return !strings.Contains(h.Name, part) })
}

func noHypervisors(part string) error {
	return fault.New(fault.NotFound, "No hypervisor matching '%s' could be found.", edge.Clip(part))
}

// searchHypervisors is GET /v2.1/os-hypervisors/{id}/search, and with servers GET …/{id}/servers (both until 2.52);
// {id} is a part of the name. Nova's rules are os_compute_api:os-hypervisors:search and :servers.
func (s *Handlers) searchHypervisors(servers bool) func(*request.Call) error {
	return func(c *request.Call) error {
		list, err := s.hostStates(c.R.Context())
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
func (s *Handlers) findHypervisor(c *request.Call) (hostState, error) {
	list, err := s.hostStates(c.R.Context())
	if err != nil {
		return hostState{}, err
	}
	for _, h := range list {
		if hasID(c, h, c.R.PathValue("id")) {
			return h, nil
		}
	}
	return hostState{}, fault.New(fault.NotFound, "Hypervisor with ID '%s' could not be found.",
		edge.Clip(c.R.PathValue("id")))
}

func (s *Handlers) showHypervisor(c *request.Call) error {
	h, err := s.findHypervisor(c)
	if err != nil {
		return err
	}
	amounts, err := s.shownAmounts(c, []hostState{h})
	if err != nil {
		return err
	}
	v, err := s.hypervisor(c, h, amounts[0])
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"hypervisor": v})
}

// shownAmounts returns the amounts of hosts; zeros since 2.88, which shows none.
func (s *Handlers) shownAmounts(c *request.Call, list []hostState) ([]compute.HypervisorAmounts, error) {
	if c.Has(compute.HypervisorUptime) {
		return make([]compute.HypervisorAmounts, len(list)), nil
	}
	return s.amountsOf(c.R.Context(), list)
}

func (s *Handlers) hypervisorUptime(c *request.Call) error {
	h, err := s.findHypervisor(c)
	if err != nil {
		return err
	}
	text := s.uptime(h)
	if text == nil {
		return fault.New(fault.Invalid, "the uptime of hypervisor %s is not known: its host is down, or its agent does "+
			"not report when the machine was started", h.Name)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"hypervisor": struct {
		compute.HypervisorRef
		compute.HypervisorUpFor
	}{refView(c, h), compute.HypervisorUpFor{Uptime: text}}})
}

// uptime returns the time of the day and for how long the machine of a host that is up has run, as the program uptime
// prints it, without users and load; nil if it is not known.
func (s *Handlers) uptime(h hostState) *string {
	now := s.Now().UTC()
	up := now.Sub(h.Booted)
	if h.Booted.IsZero() || !h.up || up < 0 {
		return nil
	}
	days, rest := int(up.Hours())/24, up%(24*time.Hour)
	text := fmt.Sprintf(" %s up %d days, %2d:%02d", now.Format(time.TimeOnly), days, int(rest.Hours()),
		int(rest.Minutes())%60)
	return &text
}

func (s *Handlers) hypervisorStatistics(c *request.Call) error {
	list, err := s.hostStates(c.R.Context())
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
func refView(c *request.Call, h hostState) compute.HypervisorRef {
	v := compute.HypervisorRef{ID: hypervisorID(c, h), Hostname: h.Name, State: "down", Status: h.status}
	if h.up {
		v.State = "up"
	}
	return v
}

// hypervisorRef adds the servers if the query asks for them (2.53).
func (s *Handlers) hypervisorRef(c *request.Call, h hostState) (v compute.HypervisorRef, err error) {
	v = refView(c, h)
	if with, _ := request.Style.Bool(c.R.URL.Query().Get("with_servers")); with && c.Has(compute.ServiceUUID) {
		v.Servers, err = s.hypervisorServers(c.R.Context(), h.Name)
		if v.Servers == nil && c.Has(compute.StrictRequests) {
			v.Servers = []compute.HypervisorServer{}
		}
	}
	return v, err
}

// hypervisor returns the view of a hypervisor in detail.
func (s *Handlers) hypervisor(c *request.Call, h hostState, amounts compute.HypervisorAmounts) (v compute.Hypervisor,
	err error) {
	if v.HypervisorRef, err = s.hypervisorRef(c, h); err != nil {
		return v, err
	}
	v.Service = compute.HypervisorService{ID: h.position + 1, Host: h.Name, DisabledReason: h.reason}
	if c.Has(compute.ServiceUUID) {
		v.Service.ID = serviceID(compute.Binary, h.Name)
	}
	v.Type = cmp.Or(h.Hypervisor, "berth")
	for _, text := range []string{h.MoveAddress, h.HostIP} {
		if address, err := netip.ParseAddr(text); err == nil {
			v.HostIP = address.String()
		}
	}
	switch {
	case c.Has(compute.HypervisorUptime):
		v.HypervisorUpFor = &compute.HypervisorUpFor{Uptime: s.uptime(h)}
		return v, nil
	case c.Has(compute.CPUInfoObject):
		v.CPUInfo = struct{}{}
	default:
		v.CPUInfo = ""
	}
	v.HypervisorAmounts = &amounts
	return v, nil
}

// hypervisorServers lists the servers on a host.
func (s *Handlers) hypervisorServers(ctx context.Context, host string) ([]compute.HypervisorServer, error) {
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
func (s *Handlers) eachServer(ctx context.Context, f store.ServerFilter, visit func(lifecycle.Server)) error {
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

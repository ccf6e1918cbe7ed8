package hosts

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/compute/server/request"
)

// headroomRoutes returns the paths of the headroom.
func headroomRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/headroom": {http.MethodGet: request.Guarded(policies.ShowHeadroom, s.headroom)},
	}
}

// headroom is GET /berth/v1/headroom: how many more servers of a flavor fit. It refuses a flavor of which no server can
// be created.
func (s *Handlers) headroom(c *request.Call) error {
	query := c.R.URL.Query()
	f, err := s.Store.Flavor(c.R.Context(), query.Get("flavor"))
	if err != nil {
		return err
	}
	if err := flavor.CheckProperties(f, flavor.Image{}, s.Ignored); err != nil {
		return err
	}
	var ports []portrequest.Port
	for n, text := range query["port"] {
		p, err := portrequest.ParsePort(text, n)
		if err != nil {
			return err
		}
		ports = append(ports, p)
	}
	hosts, reason, err := s.Scheduler.Headroom(c.R.Context(), f, ports)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, writeHeadroom(hosts, reason))
}

// writeHeadroom adds up the servers of all hosts, and the hosts by what they lack.
func writeHeadroom(hosts []scheduler.HostHeadroom, reason string) host.Headroom {
	out := host.Headroom{Exact: true, Reason: reason, RunsOut: []host.RunsOut{}, ByHost: []host.HostHeadroom{}}
	for _, h := range hosts {
		out.Fits, out.Exact = out.Fits+h.Fits, out.Exact && h.Exact
		out.ByHost = append(out.ByHost, host.HostHeadroom{Host: cmp.Or(h.Name, string(h.Root)), Fits: h.Fits, Exact: h.Exact,
			Lacks: request.Texts(h.Lacks), Excluded: h.Excluded, Refused: h.Refused})
		for _, class := range h.Lacks {
			i := slices.IndexFunc(out.RunsOut, func(r host.RunsOut) bool { return r.Class == string(class) })
			if i < 0 {
				i = len(out.RunsOut)
				out.RunsOut = append(out.RunsOut, host.RunsOut{Class: string(class)})
			}
			out.RunsOut[i].Hosts++
		}
	}
	slices.SortFunc(out.RunsOut, func(a, b host.RunsOut) int {
		return cmp.Or(cmp.Compare(b.Hosts, a.Hosts), strings.Compare(a.Class, b.Class))
	})
	return out
}

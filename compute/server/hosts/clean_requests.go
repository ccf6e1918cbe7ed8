package hosts

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// cleanRoutes returns the paths of clean requests.
func cleanRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/devices/{address}/clean": {
			http.MethodPost: request.Guarded(policies.CleanDevice, s.cleanDevice),
		},
	}
}

// cleanDevice is POST /berth/v1/hosts/{host}/devices/{address}/clean: an operator requests that a device for one-time
// use is cleaned. It responds with 202, and the request is sent to the agent until that has answered; with 404 if
// there is no such device, 409 if it has not been used or a server has it.
func (s *Handlers) cleanDevice(c *request.Call) error {
	name := c.R.PathValue("host")
	at, err := pci.ParseAddress(c.R.PathValue("address"))
	if err != nil {
		return fault.New(fault.Invalid, "%s", fault.TextOf(err))
	}
	h, err := s.Store.Host(c.R.Context(), name)
	if err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	i := slices.IndexFunc(h.Devices, func(d pci.Offered) bool { return d.Address == at })
	switch {
	case i < 0:
		return fault.New(fault.NotFound, "host %s offers no device %s", name, at)
	case h.Devices[i].Holder != "":
		return fault.New(fault.Conflict, "%s is held by server %s; it can be cleaned when the server is gone",
			at, h.Devices[i].Holder)
	case !h.Devices[i].Spent:
		return fault.New(fault.Conflict, "%s has not been used; there is nothing to clean", at)
	}
	request := store.CleanRequest{Host: name, Address: at, Asked: s.Now()}
	if err := s.Devices.RequestClean(c.R.Context(), request); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}

// resolveCleans resolves the clean requests of operators by the results in a report. A device that the host no longer
// offers counts as not cleaned.
func (s *Handlers) resolveCleans(ctx context.Context, h schedule.Host, results []host.CleanResult) error {
	var answers []store.CleanRequest
	for _, a := range results {
		at, err := pci.ParseAddress(a.Address)
		if err != nil {
			return fault.New(fault.Invalid, "cleaned: %w", err)
		}
		answers = append(answers, store.CleanRequest{Host: h.Name, Address: at, Asked: a.Asked,
			Refused: storable(a.Refused)})
	}
	return s.Devices.ResolveClean(ctx, h.Name, func(at pci.Address) bool {
		i := slices.IndexFunc(h.Devices, func(d pci.Offered) bool { return d.Address == at })
		return i < 0 || h.Devices[i].Spent
	}, answers)
}

// maxRefusal is the maximum stored length of a cleaning program's output, in bytes.
const maxRefusal = 4096

// storable returns a text that every database can store: without NUL and invalid UTF-8, of at most maxRefusal bytes.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), maxRefusal)], "\x00", ""), "")
}

// writeCleanRequests converts unanswered clean requests for an assignment.
func writeCleanRequests(list []store.CleanRequest) []host.CleanRequest {
	var out []host.CleanRequest
	for _, w := range list {
		out = append(out, host.CleanRequest{Address: w.Address.String(), Asked: w.Asked})
	}
	return out
}

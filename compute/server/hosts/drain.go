package hosts

import (
	"context"
	"net/http"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// drainRoutes returns the paths of the plan of a drain.
func drainRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/drain": {http.MethodGet: request.Guarded(policies.PlanDrain, s.planDrain)},
	}
}

// planDrain is GET /berth/v1/hosts/{host}/drain?device=ADDRESS&server=ID: where the servers of a host would move if it
// were drained now; with an address, only those that have the device or a VF of it; with an id, only that server.
func (s *Handlers) planDrain(c *request.Call) error {
	name := c.R.PathValue("host")
	devices, err := s.drainedDevices(c.R.Context(), name, c.R.URL.Query().Get("device"))
	if err != nil {
		return err
	}
	id := c.R.URL.Query().Get("server")
	plan, err := s.Scheduler.PlanDrain(c.R.Context(), name, func(one lifecycle.Server) bool {
		return (devices == nil || scheduler.HasDevice(one, name, devices)) && (id == "" || one.ID == id)
	})
	if err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	kinds := map[lifecycle.Action]string{lifecycle.Live: host.MoveLive, lifecycle.Migrate: host.MoveCold}
	moves := make([]host.PlannedMove, 0, len(plan))
	for _, p := range plan {
		moves = append(moves, host.PlannedMove{Server: p.Server, Name: p.Name, Action: kinds[p.Action], To: p.To,
			Reason: p.Reason, Note: p.Note})
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"moves": moves})
}

// drainedDevices returns the address of a device and those of its VFs; nil for an empty address. It returns
// fault.NotFound if the host offers none of them.
func (s *Handlers) drainedDevices(ctx context.Context, name, address string) (list []pci.Address, err error) {
	if address == "" {
		return nil, nil
	}
	at, err := pci.ParseAddress(address)
	if err != nil {
		return nil, fault.New(fault.Invalid, "device: %s", fault.TextOf(err))
	}
	h, err := s.Store.Host(ctx, name)
	if err != nil {
		return nil, s.UnknownHost(ctx, name, err)
	}
	for _, d := range h.Devices {
		if d.Address == at || d.Parent != nil && *d.Parent == at {
			list = append(list, d.Address)
		}
	}
	if len(list) == 0 {
		return nil, fault.New(fault.NotFound, "host %s offers no device %s; it offers %s", name, at, offeredText(h))
	}
	return list, nil
}

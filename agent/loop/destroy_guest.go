package loop

import (
	"context"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/survey"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// DestroyGuest destroys a guest that compute's assignments do not mention, and resets its VFs. Its devices are freed at
// the agent's next start. The guest may be one that only the journal has. With force, the guest is destroyed even if it
// is assigned or compute does not answer. Faults: NotFound when there is no such guest; Conflict when compute assigns
// it to this host, or the agent runs.
func (a *Agent) DestroyGuest(ctx context.Context, id string, force bool) error {
	defer endIdleSessions(ctx, a)
	j, err := journal.Open(a.o.Dir)
	if err != nil {
		return err
	}
	defer j.Close()
	guests, err := a.o.Hypervisor.Guests(ctx)
	if err != nil {
		return fault.Wrap("", err)
	}
	claims, journalled := j.State().Of(id)
	i := slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == id })
	if i < 0 && journalled {
		i, guests = len(guests), append(guests, journalledGuest(id, claims))
	}
	if i < 0 {
		var names []string
		for _, g := range guests {
			names = append(names, g.ID)
		}
		return fault.New(fault.NotFound, "host %s has no guest %s; its guests are: %s", a.o.Host, id,
			strings.Join(names, ", "))
	}
	if !force {
		line, err := a.firstAssignments(ctx)
		if err != nil {
			return fault.New(fault.KindOf(err),
				"cannot ask compute whether it assigns the guest to this host: %w; --force destroys it all the same", err)
		}
		if slices.ContainsFunc(line.Servers, func(s host.Server) bool { return s.ID == id || s.PreviousID == id }) {
			return fault.New(fault.Conflict,
				"compute assigns guest %s to this host; delete or move the server, or use --force", id)
		}
	}
	if err := a.o.Hypervisor.Destroy(ctx, id); err != nil {
		return fault.Wrap("", err)
	}
	if err := a.resetVFs(ctx, guests[i], claims); err != nil {
		return err
	}
	return j.Write(journal.Gone(id))
}

// journalledGuest returns a guest with the devices that the journal has for it.
func journalledGuest(id string, claims []device.Claim) hypervisor.Guest {
	g := hypervisor.Guest{ID: id}
	for _, c := range claims {
		g.Devices = append(g.Devices, hypervisor.Device{ID: c.ID()})
	}
	return g
}

// resetVFs resets the VFs of networks that a guest had: those of the present rules, and those that were claimed by
// former ones.
func (a *Agent) resetVFs(ctx context.Context, g hypervisor.Guest, claims []device.Claim) error {
	if a.o.DataPlane == nil || len(g.Devices) == 0 {
		return nil
	}
	machine, err := a.o.Facts.Read(a.o.Rules)
	if err != nil {
		return err
	}
	var devices []device.ID
	for _, o := range survey.Offers(survey.Facts{Devices: machine.Devices, Rules: a.o.Rules}) {
		had := slices.ContainsFunc(g.Devices, func(d hypervisor.Device) bool { return d.ID == o.ID() })
		if had && o.Networked && o.Device.Type == pci.Virtual {
			devices = append(devices, o.ID())
		}
	}
	for _, c := range claims {
		if c.Networked && c.Device.Type == pci.Virtual && !slices.Contains(devices, c.ID()) {
			devices = append(devices, c.ID())
		}
	}
	return a.o.DataPlane.Reset(ctx, devices)
}

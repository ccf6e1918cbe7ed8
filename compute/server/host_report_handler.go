package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// putReport is PUT /berth/v1/hosts/{host}: the report replaces the previous one completely. It responds with 409 if
// another agent serves the host.
func (s *server) putReport(c *call) error {
	var report host.Report
	if err := c.read(maxReport, &report); err != nil {
		return err
	}
	if name := c.R.PathValue("host"); report.Host != name {
		return fault.New(fault.Invalid, "the path names host %q, the report host %q", name, report.Host)
	}
	from, err := readSender(report.Sender())
	if err != nil {
		return err
	}
	known, err := ReadReport(report)
	if err != nil {
		return err
	}
	if err := s.bind(c, report.Host, from); err != nil {
		return err
	}
	known.Seen = s.Now()
	if known.NotFollowed == "" {
		if known.NotFollowed, err = s.behind(c.R.Context(), report.Host, report.Position); err != nil {
			return err
		}
	}
	if err := s.Conductor.Report(c.R.Context(), known, from); err != nil {
		return c.occupied(err)
	}
	s.Conductor.Followed(report.Host, report.Position.EpochID, report.Position.Revision)
	s.Conductor.HostReported(known)
	if err := s.resolveCleans(c.R.Context(), known, report.Cleaned); err != nil {
		return err
	}
	return c.writeStatus(http.StatusNoContent)
}

// putAlive is PUT /berth/v1/hosts/{host}/alive: a sign of life of the agent, and the newest assignments that it has
// followed. It responds with 409 if another agent serves the host, and with 404 if the report must be sent first.
func (s *server) putAlive(c *call) error {
	var alive host.Alive
	if err := c.read(maxBody, &alive); err != nil {
		return err
	}
	from, err := readSender(alive.Sender())
	if err != nil {
		return err
	}
	name := c.R.PathValue("host")
	if alive.Failed != "" {
		return s.startFailed(c, name, from, alive.Failed)
	}
	if err := s.Conductor.Alive(c.R.Context(), name, from); err != nil {
		return err
	}
	s.Conductor.Followed(name, alive.Position.EpochID, alive.Position.Revision)
	return c.writeStatus(http.StatusNoContent)
}

// startFailed records why a start of an agent cannot report its host yet.
func (s *server) startFailed(c *call, name string, from schedule.Sender, why string) error {
	if err := s.bind(c, name, from); err != nil {
		return err
	}
	if err := s.Conductor.StartFailed(c.R.Context(), name, from, why); err != nil {
		return c.occupied(err)
	}
	return c.writeStatus(http.StatusNoContent)
}

// behind returns why the agent of a host does not follow the assignments: it has followed newer ones than the database
// has. It is empty if the database has what the agent has followed.
func (s *server) behind(ctx context.Context, name string, p host.Position) (string, error) {
	if p == (host.Position{}) {
		return "", nil
	}
	now, err := s.Store.Position(ctx, name)
	if err != nil {
		return "", err
	}
	line := host.Assignments{Position: writePosition(now)}
	if line.Past, err = s.past(ctx, name, p, now); err != nil {
		return "", err
	}
	return p.Accept(line), nil
}

// past returns what the database records of the epoch of p; nil when that is the present one or unknown.
func (s *server) past(ctx context.Context, name string, p host.Position, now store.Position) (*host.Position, error) {
	epoch := store.Epoch{Number: p.Epoch, ID: p.EpochID}
	if p.Epoch == 0 || epoch == now.Epoch {
		return nil, nil
	}
	revision, known, err := s.Store.EpochEnd(ctx, name, epoch)
	if err != nil || !known {
		return nil, err
	}
	return &host.Position{Epoch: p.Epoch, EpochID: p.EpochID, Revision: revision}, nil
}

func writePosition(p store.Position) host.Position {
	return host.Position{Epoch: p.Epoch.Number, EpochID: p.Epoch.ID, Revision: p.Revision}
}

// ReadReport converts a report to compute's record of a host, without its sender. It returns fault.Invalid for a value
// that is not valid.
func ReadReport(r host.Report) (schedule.Host, error) {
	h := schedule.Host{Name: r.Host, Provider: provider.ID(r.Provider), Conditions: r.Conditions, InPlacement: r.InPlace,
		NotFollowed: r.NotFollowed, Hypervisor: r.Hypervisor, Down: r.Down,
		Disks: schedule.Disks{DiskImages: r.DiskImages, NoDiskImages: r.NoDiskImages, NoDiskMoves: r.NoDiskMoves}}
	for _, g := range r.Counted {
		h.Counted = append(h.Counted, schedule.CountedGuest{ID: g.ID, Cells: host.ReadGuestCells(g.Cells),
			Placed: host.ReadPlaced(g.Placed)})
	}
	for _, g := range r.Guests {
		h.Present = append(h.Present, schedule.Present{ID: g.ID, Server: cmp.Or(g.Server, g.ID), Assigned: g.Assigned})
	}
	h.Cells, h.Limits = r.Resources().Cells, r.Resources().Limits
	if _, err := uuid.Parse(r.Provider); err != nil {
		return h, fault.New(fault.Invalid, "provider must be the UUID of the host's root provider; it is %q",
			clip(r.Provider))
	}
	seen := map[pci.Address]bool{}
	for _, d := range r.Devices {
		device, err := readDevice(r.Host, d)
		if err != nil {
			return h, fault.New(fault.Invalid, "device %q: %w", clip(d.Address), err)
		}
		if seen[device.Address] {
			return h, fault.New(fault.Invalid, "device %s is in the report twice", device.Address)
		}
		seen[device.Address] = true
		h.Devices = append(h.Devices, device)
	}
	return h, nil
}

func readDevice(name string, d host.Device) (out schedule.Device, err error) {
	if d.Host != "" && d.Host != name {
		return out, fault.New(fault.Invalid, "it is on host %q, the report is of host %q", d.Host, name)
	}
	out = schedule.Device{Device: pci.Device{Vendor: d.VendorID, Product: d.ProductID, Type: pci.Type(d.Type),
		NUMANode: d.NUMANode, Driver: d.Driver, IOMMUGroup: d.IOMMUGroup, Serial: d.CardSerial, PFMAC: d.PFMAC,
		VFNumber: d.VFNumber},
		ResourceClass: resource.Class(d.ResourceClass), Provider: provider.ID(d.Provider),
		State: schedule.State(d.State), Holder: d.Holder, RequestID: d.RequestID, ForPorts: d.ForPorts,
		RemoteManaged: d.RemoteManaged, LiveMigratable: pci.Flag(d.LiveMigratable),
		PhysicalNetwork: d.PhysicalNetwork, Trusted: d.Trusted, OneTimeUse: d.OneTimeUse, Spent: d.Spent}
	for _, t := range d.Traits {
		out.Traits = append(out.Traits, resource.Trait(t))
	}
	if out.Address, err = pci.ParseAddress(d.Address); err != nil {
		return out, err
	}
	switch out.Type {
	case pci.Plain, pci.Physical, pci.Virtual, pci.VDPA:
	default:
		return out, fault.New(fault.Invalid, "dev_type is %q; it must be one of %s, %s, %s, %s",
			d.Type, pci.Plain, pci.Physical, pci.Virtual, pci.VDPA)
	}
	if d.State == "" {
		return out, fault.New(fault.Invalid, "state is missing")
	}
	if d.Parent != "" {
		parent, err := pci.ParseAddress(d.Parent)
		if err != nil {
			return out, err
		}
		out.Parent = &parent
	}
	return out, nil
}

package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/conductor"
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
		return fault.New(fault.Invalid, "", "the path names host %q, the report host %q", name, report.Host)
	}
	from, err := readSender(report.Sender())
	if err != nil {
		return err
	}
	known, err := ReadReport(report)
	if err != nil {
		return err
	}
	known.Seen = s.Now()
	if known.Behind == "" {
		if known.Behind, err = s.behind(c.R.Context(), report.Host, report.Position); err != nil {
			return err
		}
	}
	if err := s.Conductor.Report(c.R.Context(), known, from); err != nil {
		return c.occupied(err)
	}
	s.Conductor.HostReported(known)
	if err := s.resolveCleans(c.R.Context(), known, report.Cleaned); err != nil {
		return err
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

// maxText is the maximum length of instance, start and place, in bytes.
const maxText = 128

// readSender checks the sender of a report or of a request for a stream. It returns fault.Invalid if instance or start
// is missing.
func readSender(from host.Sender) (schedule.Sender, error) {
	for _, f := range []struct {
		name, text string
		may        bool // be empty
	}{{"instance", from.Instance, false}, {"start", from.Start, false}, {"place", from.ProcessSpace, true}} {
		if f.text == "" && !f.may || len(f.text) > maxText {
			return schedule.Sender{}, fault.New(fault.Invalid, "", "%s must be that of the agent, of 1 to %d bytes; it is %q",
				f.name, maxText, clip(f.text))
		}
	}
	if len(from.Previous) > host.MaxPrevious {
		return schedule.Sender{}, fault.New(fault.Invalid, "", "previous has %d starts; at most %d are accepted",
			len(from.Previous), host.MaxPrevious)
	}
	return schedule.Sender(from), nil
}

// occupied sets Retry-After if the agent may be admitted later. It returns err.
func (c *call) occupied(err error) error {
	if o, is := errors.AsType[*conductor.Occupied](err); is && o.Wait > 0 {
		c.W.Header().Set("Retry-After", strconv.Itoa(int(o.Wait.Seconds())+1))
	}
	return err
}

// ReadReport converts a report to compute's record of a host, without its sender. It returns fault.Invalid for a value
// that is not valid.
func ReadReport(r host.Report) (schedule.Host, error) {
	h := schedule.Host{Name: r.Host, Provider: provider.ID(r.Provider), Conditions: r.Conditions, InPlacement: r.InPlace,
		Counted: r.Counted, Behind: r.Behind}
	for _, g := range r.Guests {
		h.Present = append(h.Present, schedule.Present{ID: g.ID, Server: cmp.Or(g.Server, g.ID), Assigned: g.Assigned})
	}
	h.Cells, h.Limits = r.Resources().Cells, r.Resources().Limits
	if _, err := uuid.Parse(r.Provider); err != nil {
		return h, fault.New(fault.Invalid, "", "provider must be the UUID of the host's root provider; it is %q",
			clip(r.Provider))
	}
	seen := map[pci.Address]bool{}
	for _, d := range r.Devices {
		device, err := readDevice(r.Host, d)
		if err != nil {
			return h, fault.New(fault.Invalid, "", "device %q: %w", clip(d.Address), err)
		}
		if seen[device.Address] {
			return h, fault.New(fault.Invalid, "", "device %s is in the report twice", device.Address)
		}
		seen[device.Address] = true
		h.Devices = append(h.Devices, device)
	}
	return h, nil
}

func readDevice(name string, d host.Device) (out schedule.Device, err error) {
	if d.Host != "" && d.Host != name {
		return out, fault.New(fault.Invalid, "", "it is on host %q, the report is of host %q", d.Host, name)
	}
	out = schedule.Device{Device: pci.Device{Vendor: d.VendorID, Product: d.ProductID, Type: pci.Type(d.Type),
		NUMANode: d.NUMANode, Driver: d.Driver, IOMMUGroup: d.IOMMUGroup},
		ResourceClass: resource.Class(d.ResourceClass), Provider: provider.ID(d.Provider),
		State: schedule.State(d.State), Holder: d.Holder, RequestID: d.RequestID, ForPorts: d.ForPorts,
		RemoteManaged: d.RemoteManaged, LiveMigratable: pci.Flag(d.LiveMigratable),
		OneTimeUse: d.OneTimeUse, Spent: d.Spent}
	for _, t := range d.Traits {
		out.Traits = append(out.Traits, resource.Trait(t))
	}
	if out.Address, err = pci.ParseAddress(d.Address); err != nil {
		return out, err
	}
	switch out.Type {
	case pci.Plain, pci.Physical, pci.Virtual, pci.VDPA:
	default:
		return out, fault.New(fault.Invalid, "", "dev_type is %q; it must be one of %s, %s, %s, %s",
			d.Type, pci.Plain, pci.Physical, pci.Virtual, pci.VDPA)
	}
	if d.State == "" {
		return out, fault.New(fault.Invalid, "", "state is missing")
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

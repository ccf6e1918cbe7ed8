package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/lifecycle"
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
	if name := c.r.PathValue("host"); report.Host != name {
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
		if known.Behind, err = s.behind(c.r.Context(), report.Host, report.Position); err != nil {
			return err
		}
	}
	if err := s.Conductor.Report(c.r.Context(), known, from); err != nil {
		return c.occupied(err)
	}
	s.Conductor.HostReported(known)
	if err := s.resolveCleans(c.r.Context(), known, report.Cleaned); err != nil {
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
		c.w.Header().Set("Retry-After", strconv.Itoa(int(o.Wait.Seconds())+1))
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

// listHosts is GET /berth/v1/hosts.
func (s *server) listHosts(c *call) error {
	hosts, dead, err := s.hostsAndDead(c.r.Context())
	if err != nil {
		return err
	}
	cleans, err := s.Store.CleanRequests(c.r.Context())
	if err != nil {
		return err
	}
	reports := make([]host.Report, 0, len(hosts))
	for _, h := range hosts {
		conditions := append(append([]string{}, h.Conditions...), s.Conductor.HostConditions(h.Name)...)
		down := slices.Contains(dead, h.Name)
		if down {
			dead := fmt.Sprintf("an operator has declared this host dead (`berth host up %s` reverses that, "+
				"`berth host forget %s` removes the host)", h.Name, h.Name)
			conditions = append([]string{dead}, conditions...)
		}
		connected, quiet := s.Conductor.LastSign(h.Name)
		reports = append(reports, host.Report{Host: h.Name, Connected: connected, Quiet: quiet.Seconds(),
			Instance: h.Instance, Provider: string(h.Provider), Devices: describeDevices(h, cleans),
			Conditions: conditions, InPlace: h.InPlacement, Seen: h.Seen, Cells: host.WriteCells(h.Cells),
			Counted: h.Counted, CPURatio: h.Limits.CPU, MemRatio: h.Limits.Memory, Dead: down,
			Guests: writePresent(h.Present), Behind: h.Behind})
	}
	return c.writeJSON(http.StatusOK, map[string]any{"hosts": reports})
}

// listDevices is GET /berth/v1/devices.
func (s *server) listDevices(c *call) error {
	hosts, err := s.Store.Hosts(c.r.Context())
	if err != nil {
		return err
	}
	cleans, err := s.Store.CleanRequests(c.r.Context())
	if err != nil {
		return err
	}
	devices := []host.Device{}
	for _, h := range hosts {
		devices = append(devices, describeDevices(h, cleans)...)
	}
	return c.writeJSON(http.StatusOK, map[string]any{"devices": devices})
}

// putGuest is PUT /berth/v1/hosts/{host}/guests/{server}: the report of a guest. It may be received twice. A late
// report, or one from an agent that does not serve the host, gets 409 and changes nothing. The report is recorded
// even if the agent closes the connection before the response.
func (s *server) putGuest(c *call) error {
	var guest host.Guest
	if err := c.read(maxBody, &guest); err != nil {
		return err
	}
	event, err := ReadGuest(c.r.PathValue("host"), c.r.PathValue("server"), guest)
	if err != nil {
		return err
	}
	if _, err := readSender(host.Sender{Instance: guest.Instance, Start: guest.Start}); err != nil {
		return err
	}
	if guest.Number <= 0 {
		return fault.New(fault.Invalid, "", "number must be larger than in all earlier reports of this agent; it is %d",
			guest.Number)
	}
	report := lifecycle.Report{Host: c.r.PathValue("host"), Instance: guest.Instance, Number: guest.Number, Event: event}
	ctx, cancel := rest.Patient(c.r.Context())
	defer cancel()
	err = s.Conductor.Guest(ctx, c.r.PathValue("server"), guest.Start, report)
	if late, is := errors.AsType[*conductor.Late](err); is {
		c.w.Header().Set(host.Latest, strconv.FormatInt(late.Number, 10))
	}
	if err != nil {
		return err
	}
	return c.writeStatus(http.StatusNoContent)
}

// ReadGuest converts the report of a guest, known as id to the agent of the host, to the event of its server. It
// returns fault.Invalid for a value that is not valid.
func ReadGuest(name, id string, g host.Guest) (lifecycle.Event, error) {
	var devices []schedule.Picked
	for _, d := range g.Devices {
		if _, err := pci.ParseAddress(d.Address); err != nil {
			return nil, err
		}
		devices = append(devices, schedule.Picked{RequestID: d.RequestID, Address: d.Address,
			Provider: provider.ID(d.Provider)})
	}
	cells := host.ReadPlaced(g.Cells)
	switch g.Phase {
	case host.Claimed:
		return lifecycle.GuestClaimed{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build}, nil
	case host.Running:
		return lifecycle.GuestRunning{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build}, nil
	case host.Stopped:
		return lifecycle.GuestStopped{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build}, nil
	case host.Refused:
		return lifecycle.GuestRefused{Host: name, Consumer: id, Devices: devices, Cells: cells, Build: g.Build,
			Stopped: g.Power == host.Off, Message: g.Message}, nil
	case host.Departed:
		return lifecycle.GuestMigrated{Host: name, Consumer: id}, nil
	case host.Failed:
		return lifecycle.GuestFailed{Host: name, Consumer: id, Message: g.Message}, nil
	case host.Gone:
		return lifecycle.GuestGone{Host: name, Consumer: id}, nil
	}
	return nil, fault.New(fault.Invalid, "", "phase is %q; it must be one of %s, %s, %s, %s, %s, %s, %s", g.Phase,
		host.Claimed, host.Running, host.Stopped, host.Refused, host.Departed, host.Failed, host.Gone)
}

// hostDown is PUT /berth/v1/hosts/{host}/down: an operator declares the host permanently dead.
func (s *server) hostDown(c *call) error {
	name := c.r.PathValue("host")
	if err := s.Conductor.HostDown(c.r.Context(), name); err != nil {
		return s.unknownHost(c.r.Context(), name, err)
	}
	return c.writeStatus(http.StatusNoContent)
}

// hostUp is DELETE /berth/v1/hosts/{host}/down: an operator reverses hostDown.
func (s *server) hostUp(c *call) error {
	name := c.r.PathValue("host")
	if err := s.Conductor.HostUp(c.r.Context(), name); err != nil {
		return s.unknownHost(c.r.Context(), name, err)
	}
	return c.writeStatus(http.StatusNoContent)
}

package server

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/compute/conduct"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// putReport is PUT /berth/v1/hosts/{host}: the report replaces the one before it, whole. 409 when another agent serves the host.
func (s *server) putReport(c *call) error {
	var report host.Report
	if err := c.read(maxReport, &report); err != nil {
		return err
	}
	if name := c.r.PathValue("host"); report.Host != name {
		return fault.New(fault.Invalid, "", "the path names host %q, the report host %q", name, report.Host)
	}
	known, err := readReport(report)
	if err != nil {
		return err
	}
	known.Seen = s.Now()
	if err := s.Store.PutReport(c.r.Context(), known); err != nil {
		return err
	}
	if err := s.settle(c.r.Context(), known, report.Cleaned); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// maxInstance is the longest name of an instance that is taken, in bytes.
const maxInstance = 64

// admit refuses an agent while another one serves the host. An onlooker has no instance.
func (s *server) admit(c *call, name, instance string) error {
	if instance == "" {
		return nil
	}
	h, err := s.Store.Host(c.r.Context(), name)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if refusal := h.Admit(instance, s.Now()); refusal != "" {
		return fault.New(fault.Conflict, "", "%s", refusal)
	}
	return nil
}

// readReport turns a report into what compute knows of a host.
func readReport(r host.Report) (schedule.Host, error) {
	h := schedule.Host{Name: r.Host, Instance: r.Instance, Provider: provider.ID(r.Provider), Conditions: r.Conditions, InPlacement: r.InPlace,
		Counted: r.Counted}
	h.Cells, h.Limits = r.Words().Cells, r.Words().Limits
	if len(r.Instance) > maxInstance {
		return h, fault.New(fault.Invalid, "", "instance must be the UUID of the agent; it is %q", clip(r.Instance))
	}
	if _, err := uuid.Parse(r.Provider); err != nil {
		return h, fault.New(fault.Invalid, "", "provider must be the UUID of the host's root provider; it is %q", clip(r.Provider))
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
	out = schedule.Device{Device: pci.Device{Vendor: d.VendorID, Product: d.ProductID, Type: pci.Type(d.Type), NUMANode: d.NUMANode,
		Driver: d.Driver, IOMMUGroup: d.IOMMUGroup}, ResourceClass: resource.Class(d.ResourceClass), Provider: provider.ID(d.Provider),
		State: schedule.State(d.State), Holder: d.Holder, RequestID: d.RequestID, ForPorts: d.ForPorts, RemoteManaged: d.RemoteManaged,
		LiveMigratable: pci.Flag(d.LiveMigratable), OneTimeUse: d.OneTimeUse, Spent: d.Spent}
	for _, t := range d.Traits {
		out.Traits = append(out.Traits, resource.Trait(t))
	}
	if out.Address, err = pci.ParseAddress(d.Address); err != nil {
		return out, err
	}
	switch out.Type {
	case pci.Plain, pci.Physical, pci.Virtual, pci.VDPA:
	default:
		return out, fault.New(fault.Invalid, "", "dev_type is %q; it is one of %s, %s, %s, %s", d.Type, pci.Plain, pci.Physical, pci.Virtual, pci.VDPA)
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
	hosts, err := s.Store.Hosts(c.r.Context())
	if err != nil {
		return err
	}
	dead, err := s.Store.Dead(c.r.Context())
	if err != nil {
		return err
	}
	wishes, err := s.Store.Wishes(c.r.Context())
	if err != nil {
		return err
	}
	reports := make([]host.Report, 0, len(hosts))
	for _, h := range hosts {
		conditions := h.Conditions
		if conditions == nil {
			conditions = []string{}
		}
		down := slices.Contains(dead, h.Name)
		if down {
			conditions = append([]string{fmt.Sprintf("an operator says that this host is dead (`berth host up %s` takes it back, `berth host forget %s` removes it)", h.Name, h.Name)}, conditions...)
		}
		reports = append(reports, host.Report{Host: h.Name, Instance: h.Instance, Provider: string(h.Provider), Devices: describe(h, wishes),
			Conditions: conditions, InPlace: h.InPlacement, Seen: h.Seen, Cells: host.WriteCells(h.Cells), Counted: h.Counted,
			CPURatio: h.Limits.CPU, MemRatio: h.Limits.Memory, Dead: down})
	}
	return c.answer(http.StatusOK, map[string]any{"hosts": reports})
}

// listDevices is GET /berth/v1/devices.
func (s *server) listDevices(c *call) error {
	hosts, err := s.Store.Hosts(c.r.Context())
	if err != nil {
		return err
	}
	wishes, err := s.Store.Wishes(c.r.Context())
	if err != nil {
		return err
	}
	devices := []host.Device{}
	for _, h := range hosts {
		devices = append(devices, describe(h, wishes)...)
	}
	return c.answer(http.StatusOK, map[string]any{"devices": devices})
}

func writeDevices(h schedule.Host) []host.Device {
	out := make([]host.Device, 0, len(h.Devices))
	for _, d := range h.Devices {
		w := host.Device{Host: h.Name, Address: d.Address.String(), VendorID: d.Vendor, ProductID: d.Product, Type: string(d.Type),
			NUMANode: d.NUMANode, Driver: d.Driver, IOMMUGroup: d.IOMMUGroup, ResourceClass: string(d.ResourceClass),
			Traits: texts(d.Traits), Provider: string(d.Provider), State: string(d.State), Holder: d.Holder, RequestID: d.RequestID,
			ForPorts: d.ForPorts, RemoteManaged: d.RemoteManaged, LiveMigratable: string(d.LiveMigratable), OneTimeUse: d.OneTimeUse, Spent: d.Spent}
		if d.Parent != nil {
			w.Parent = d.Parent.String()
		}
		out = append(out, w)
	}
	return out
}

// texts turns words into texts; the list is never null.
func texts[T ~string](words []T) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		out = append(out, string(w))
	}
	return out
}

// putGuest is PUT /berth/v1/hosts/{host}/guests/{server}: what became of a server. It may come twice, and late: then it is answered with 409
// and changes nothing, as is what another agent says than the one that serves the host. It is recorded also when the agent does not wait for
// the answer.
func (s *server) putGuest(c *call) error {
	var guest host.Guest
	if err := c.read(maxBody, &guest); err != nil {
		return err
	}
	event, err := readGuest(c.r.PathValue("host"), c.r.PathValue("server"), guest)
	if err != nil {
		return err
	}
	if len(guest.Instance) > maxInstance {
		return fault.New(fault.Invalid, "", "instance must be the UUID of the agent; it is %q", clip(guest.Instance))
	}
	if guest.Instance != "" && guest.Number > 0 {
		event = lifecycle.Told{Host: c.r.PathValue("host"), Instance: guest.Instance, Number: guest.Number, Of: event}
	}
	ctx, cancel := rest.Patient(c.r.Context())
	defer cancel()
	err = s.Conductor.Guest(ctx, c.r.PathValue("server"), event)
	if late, is := errors.AsType[*conduct.Late](err); is {
		c.w.Header().Set(host.Latest, strconv.FormatInt(late.Number, 10))
	}
	if err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func readGuest(name, id string, g host.Guest) (lifecycle.Event, error) {
	var devices []schedule.Picked
	for _, d := range g.Devices {
		if _, err := pci.ParseAddress(d.Address); err != nil {
			return nil, err
		}
		devices = append(devices, schedule.Picked{RequestID: d.RequestID, Address: d.Address, Provider: provider.ID(d.Provider)})
	}
	cells := host.ReadPlaced(g.Parts)
	switch g.Phase {
	case host.Claimed:
		return lifecycle.GuestClaimed{Host: name, As: id, Devices: devices, Parts: cells, Build: g.Build}, nil
	case host.Running:
		return lifecycle.GuestRunning{Host: name, As: id, Devices: devices, Parts: cells, Build: g.Build}, nil
	case host.Stopped:
		return lifecycle.GuestStopped{Host: name, As: id, Devices: devices, Parts: cells, Build: g.Build}, nil
	case host.Refused:
		return lifecycle.GuestRefused{Host: name, As: id, Devices: devices, Parts: cells, Build: g.Build, Stopped: g.Power == host.Off, Message: g.Message}, nil
	case host.Departed:
		return lifecycle.GuestDeparted{Host: name, As: id}, nil
	case host.Failed:
		return lifecycle.GuestFailed{Host: name, As: id, Message: g.Message}, nil
	case host.Gone:
		return lifecycle.GuestGone{Host: name, As: id}, nil
	}
	return nil, fault.New(fault.Invalid, "", "phase is %q; it is one of %s, %s, %s, %s, %s, %s, %s", g.Phase, host.Claimed, host.Running, host.Stopped,
		host.Refused, host.Departed, host.Failed, host.Gone)
}

// hostDown is PUT /berth/v1/hosts/{host}/down: an operator says that the host is dead for good.
func (s *server) hostDown(c *call) error {
	if err := s.Conductor.HostDown(c.r.Context(), c.r.PathValue("host")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

// hostUp is DELETE /berth/v1/hosts/{host}/down: an operator takes it back.
func (s *server) hostUp(c *call) error {
	if err := s.Conductor.HostUp(c.r.Context(), c.r.PathValue("host")); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

package hosts

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// disabledRoutes returns the paths of disabled devices.
func disabledRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts/{host}/devices/{address}/disabled": {
			http.MethodPut:    request.Guarded(policies.DisableDevice, s.disableDevice),
			http.MethodDelete: request.Guarded(policies.EnableDevice, s.enableDevice),
		},
	}
}

// disableDevice is PUT /berth/v1/hosts/{host}/devices/{address}/disabled: an operator takes a device, or all VFs of a
// PF, out of service. It responds with 202 and the record, which replaces an earlier one; with 404 if the host offers
// no such device, and with 400 if the request is not valid.
func (s *Handlers) disableDevice(c *request.Call) error {
	h, at, _, err := s.knownDevice(c)
	if err != nil {
		return err
	}
	var want host.DisableDevice
	if err := c.ReadJSON(request.MaxBody, &want); err != nil {
		return err
	}
	reason, now := strings.TrimSpace(want.Reason), s.Now().UTC().Truncate(time.Second)
	switch {
	case reason == "":
		return fault.New(fault.Invalid, "reason is missing; say why the device is disabled")
	case len(reason) > host.MaxReason || strings.ContainsFunc(reason, unicode.IsControl):
		return fault.New(fault.Invalid, "reason must be one line of at most %d bytes", host.MaxReason)
	case !want.Until.IsZero() && !want.Until.After(now):
		return fault.New(fault.Invalid, "until is %s, which is not in the future; it is %s now",
			want.Until.UTC().Format(time.RFC3339), now.Format(time.RFC3339))
	}
	d := pci.Disablement{ID: uuid.NewString(), Address: at, Reason: reason, Since: now}
	if !want.Until.IsZero() {
		d.Until = want.Until.UTC().Truncate(time.Second)
	}
	if err := s.Devices.DisableDevice(c.R.Context(), store.DisabledDevice{Host: h.Name, Disablement: d}); err != nil {
		return err
	}
	s.Log.Info("device disabled", "host", h.Name, "address", at.String(), "reason", reason, "user", c.Who.User)
	out := host.WriteDisabled(d)
	out.Requested = true
	return c.WriteJSON(http.StatusAccepted, out)
}

// enableDevice is DELETE /berth/v1/hosts/{host}/devices/{address}/disabled: an operator puts a device back into
// service. It responds with 202, also if the device is not disabled; with 404 if the host offers no such device, and
// with 409 if the device is only disabled with its PF.
func (s *Handlers) enableDevice(c *request.Call) error {
	h, at, known, err := s.knownDevice(c)
	if err != nil {
		return err
	}
	var now []pci.Disablement
	for _, d := range h.Disabled {
		if d.Address == at {
			now = append(now, d)
		}
	}
	if pf := parentOf(h, at); pf != nil && !slices.ContainsFunc(known, func(d host.DisabledDevice) bool {
		return d.Address == at.String()
	}) {
		for _, d := range known {
			if d.Address == pf.String() {
				return fault.New(fault.Conflict, "%s is disabled with its PF %s (%s); enable %s", at, pf, d.Reason, pf)
			}
		}
	}
	if err := s.Devices.EnableDevice(c.R.Context(), h.Name, at, now, uuid.NewString()); err != nil {
		return err
	}
	s.Log.Info("device enabled", "host", h.Name, "address", at.String(), "user", c.Who.User)
	return c.WriteStatus(http.StatusAccepted)
}

// knownDevice returns the host and the address of a path, and the disablements of the host. It returns fault.NotFound
// if the host neither offers the device or VFs of it, nor has it disabled.
func (s *Handlers) knownDevice(c *request.Call) (
	h schedule.Host, at pci.Address, known []host.DisabledDevice, err error) {
	name := c.R.PathValue("host")
	if at, err = pci.ParseAddress(c.R.PathValue("address")); err != nil {
		return h, at, nil, fault.New(fault.Invalid, "%s", fault.TextOf(err))
	}
	if h, err = s.Store.Host(c.R.Context(), name); err != nil {
		return h, at, nil, s.UnknownHost(c.R.Context(), name, err)
	}
	requests, err := s.Devices.DisabledDevices(c.R.Context(), s.Now())
	if err != nil {
		return h, at, nil, err
	}
	known = disablements(h, requests)
	offered := slices.ContainsFunc(h.Devices, func(d pci.Offered) bool {
		return d.Address == at || d.Parent != nil && *d.Parent == at
	})
	disabled := func(d host.DisabledDevice) bool { return d.Address == at.String() }
	if !offered && !slices.ContainsFunc(known, disabled) {
		return h, at, nil, fault.New(fault.NotFound, "host %s offers no device %s; it offers %s", name, at,
			offeredText(h))
	}
	return h, at, known, nil
}

// offeredText lists the addresses of the first devices of a host.
func offeredText(h schedule.Host) string {
	const most = 5
	var list []string
	for i, d := range h.Devices {
		if i == most {
			list = append(list, fmt.Sprintf("%d more (`berth device list --host %s`)", len(h.Devices)-most, h.Name))
			break
		}
		list = append(list, d.Address.String())
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// parentOf returns the address of the PF of a VF; nil for another device.
func parentOf(h schedule.Host, at pci.Address) *pci.Address {
	for _, d := range h.Devices {
		if d.Address == at {
			return d.Parent
		}
	}
	return nil
}

// disablements returns what takes devices of a host out of service: what its agent has reported, and what operators
// have requested since.
func disablements(h schedule.Host, requests []store.DisabledDevice) (list []host.DisabledDevice) {
	byID := map[string]store.DisabledDevice{}
	for _, r := range requests {
		if r.Host == h.Name {
			byID[r.ID] = r
		}
	}
	for _, d := range h.Disabled {
		out := host.WriteDisabled(d)
		out.Lifted = byID[d.ID].Enable
		list = append(list, out)
	}
	for _, r := range requests {
		known := slices.ContainsFunc(list, func(d host.DisabledDevice) bool { return d.ID == r.ID })
		out := host.WriteDisabled(r.Disablement)
		out.Requested, out.Lifted = !r.Enable, r.Enable
		switch {
		case r.Host != h.Name:
		case !r.Enable && !r.Reported:
			list = slices.DeleteFunc(list, func(d host.DisabledDevice) bool { return d.ID == r.ID })
			list = append(list, out)
		case r.Enable && r.Reason != "" && !known: // the agent has enabled it, and Placement still has it as reserved
			list = append(list, out)
		}
	}
	return list
}

// markDisabled adds why devices are disabled, and disabled devices that the host does not have now.
func markDisabled(h schedule.Host, requests []store.DisabledDevice, devices []host.Device) []host.Device {
	wires := disablements(h, requests)
	if len(wires) == 0 {
		return devices
	}
	var list []pci.Disablement
	byID, present := map[string]host.DisabledDevice{}, map[string]bool{}
	for _, wire := range wires {
		d, err := wire.Read()
		if err != nil {
			continue // not possible: the address was written by this program
		}
		list, byID[d.ID] = append(list, d), wire
	}
	plain := make([]pci.Device, 0, len(h.Devices))
	for _, d := range h.Devices {
		plain = append(plain, d.Device)
		present[d.Address.String()] = true
		if d.Parent != nil {
			present[d.Parent.String()] = true
		}
	}
	affected := pci.Affecting(list, plain)
	for i, d := range h.Devices {
		for _, x := range affected[d.Address] {
			devices[i].Disabled = true
			devices[i].Disablements = append(devices[i].Disablements, byID[x.ID])
		}
	}
	for _, d := range list {
		if at := d.Address.String(); !present[at] {
			present[at] = true
			devices = append(devices, host.Device{Host: h.Name, Address: at, NUMANode: pci.NoNUMA, IOMMUGroup: pci.NoGroup,
				Traits: []string{}, State: string(pci.Removed), Present: new(false), Disabled: true,
				Disablements: []host.DisabledDevice{byID[d.ID]}})
		}
	}
	return devices
}

// resolveDisabled applies what the report of an agent says of the requests of operators.
func (s *Handlers) resolveDisabled(ctx context.Context, h schedule.Host, ended []string) error {
	known := make([]string, 0, len(h.Disabled))
	for _, d := range h.Disabled {
		known = append(known, d.ID)
	}
	return s.Devices.ResolveDisabled(ctx, h.Name, known, ended, s.Now())
}

// writeDisabledRequests converts the requests of operators for an assignment, without those that have expired.
func writeDisabledRequests(list []store.DisabledDevice, now time.Time) (
	disabled []host.DisabledDevice, enable []host.EnableDevice) {
	for _, d := range list {
		switch {
		case d.Enable:
			enable = append(enable, host.EnableDevice{ID: d.ID, Address: d.Address.String()})
		case !d.Expired(now):
			disabled = append(disabled, host.WriteDisabled(d.Disablement))
		}
	}
	return disabled, enable
}

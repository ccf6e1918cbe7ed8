package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
)

func writePresent(list []schedule.Present) []host.Present {
	var out []host.Present
	for _, g := range list {
		out = append(out, host.Present(g))
	}
	return out
}

func writeCounted(list []schedule.CountedGuest) []host.CountedGuest {
	var out []host.CountedGuest
	for _, g := range list {
		out = append(out, host.CountedGuest{ID: g.ID, Cells: host.WriteGuestCells(g.Cells),
			Placed: host.WritePlaced(g.Placed)})
	}
	return out
}

func writeDevices(h schedule.Host) []host.Device {
	out := make([]host.Device, 0, len(h.Devices))
	for _, d := range h.Devices {
		w := host.Device{Host: h.Name, Address: d.Address.String(), VendorID: d.Vendor, ProductID: d.Product,
			Type: string(d.Type), NUMANode: d.NUMANode, Driver: d.Driver, IOMMUGroup: d.IOMMUGroup,
			ResourceClass: string(d.ResourceClass), Traits: texts(d.Traits), Provider: string(d.Provider),
			State: string(d.State), Holder: d.Holder, RequestID: d.RequestID, ForPorts: d.ForPorts,
			RemoteManaged: d.RemoteManaged, LiveMigratable: string(d.LiveMigratable),
			DevicePort: host.DevicePort{PhysicalNetwork: d.PhysicalNetwork, Trusted: d.Trusted},
			OneTimeUse: d.OneTimeUse, Spent: d.Spent}
		if d.Parent != nil {
			w.Parent = d.Parent.String()
		}
		out = append(out, w)
	}
	return out
}

// describeDevices converts the devices of a host, with the clean requests of operators.
func describeDevices(h schedule.Host, cleans []store.CleanRequest) []host.Device {
	out := writeDevices(h)
	for _, w := range cleans {
		i := slices.IndexFunc(out, func(d host.Device) bool { return h.Name == w.Host && d.Address == w.Address.String() })
		if i >= 0 {
			out[i].Wanted, out[i].Refused = w.Asked, w.Refused
		}
	}
	return out
}

// hostsAndDead lists the hosts whose agents have reported, and the names of the hosts that an operator has declared
// dead.
func (s *server) hostsAndDead(ctx context.Context) (hosts []schedule.Host, dead []string, err error) {
	if hosts, err = s.Store.Hosts(ctx); err != nil {
		return nil, nil, err
	}
	dead, err = s.Store.Dead(ctx)
	return hosts, dead, err
}

// disabledSentence returns the condition of a disabled host.
func disabledSentence(host, reason string) string {
	if reason != "" {
		reason = ": " + reason
	}
	return fmt.Sprintf("an operator has disabled this host%s (`berth host enable %s` reverses that)", reason, host)
}

// listHosts is GET /berth/v1/hosts.
func (s *server) listHosts(c *call) error {
	hosts, dead, err := s.hostsAndDead(c.R.Context())
	if err != nil {
		return err
	}
	cleans, err := s.Store.CleanRequests(c.R.Context())
	if err != nil {
		return err
	}
	disabled, err := s.Store.DisabledHosts(c.R.Context())
	if err != nil {
		return err
	}
	accounts, err := s.boundAccounts(c.R.Context())
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
		reason, off := disabled[h.Name]
		if off {
			conditions = append([]string{disabledSentence(h.Name, reason)}, conditions...)
		}
		connected, quiet := s.Conductor.LastSign(h.Name)
		reports = append(reports, host.Report{Host: h.Name, Connected: connected, Quiet: quiet.Seconds(),
			SilentAfter: s.Conductor.SilentAfter().Seconds(),
			Instance:    h.Instance, Provider: string(h.Provider), Devices: describeDevices(h, cleans),
			Conditions: conditions, InPlace: h.InPlacement, Seen: h.Seen, Cells: host.WriteCells(h.UsedCells()),
			Counted: writeCounted(h.Counted), CPURatio: h.Limits.CPU, MemRatio: h.Limits.Memory, Dead: down,
			Disabled: off, DisabledReason: reason, Account: accounts[h.Name],
			Guests: writePresent(h.Present), Behind: h.Behind, Hypervisor: h.Hypervisor})
	}
	return c.writeJSON(http.StatusOK, map[string]any{"hosts": reports})
}

// listDevices is GET /berth/v1/devices.
func (s *server) listDevices(c *call) error {
	hosts, err := s.Store.Hosts(c.R.Context())
	if err != nil {
		return err
	}
	cleans, err := s.Store.CleanRequests(c.R.Context())
	if err != nil {
		return err
	}
	devices := []host.Device{}
	for _, h := range hosts {
		devices = append(devices, describeDevices(h, cleans)...)
	}
	return c.writeJSON(http.StatusOK, map[string]any{"devices": devices})
}

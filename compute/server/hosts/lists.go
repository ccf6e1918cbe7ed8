package hosts

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/presence"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// listRoutes returns the paths of the lists of hosts and devices.
func listRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/berth/v1/hosts":   {http.MethodGet: request.Guarded(policies.ListHosts, s.listHosts)},
		"/berth/v1/devices": {http.MethodGet: request.Guarded(policies.ListDevices, s.listDevices)},
		"/berth/v1/hosts/{host}/devices/{address}": {
			http.MethodGet: request.Guarded(policies.ListDevices, s.showDevice),
		},
	}
}

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
		out = append(out, host.WriteDevice(h.Name, d))
	}
	return out
}

// describeDevices converts the devices of a host, with the requests of operators and with the consumers that hold
// devices in Placement without being placed on the host.
func describeDevices(h schedule.Host, requests deviceRequests, foreign []audit.Foreign) []host.Device {
	cleans := requests.cleans
	out := markDisabled(h, requests.disabled, writeDevices(h))
	markForeign(out, foreign)
	for _, w := range cleans {
		i := slices.IndexFunc(out, func(d host.Device) bool { return h.Name == w.Host && d.Address == w.Address.String() })
		if i >= 0 {
			out[i].Wanted, out[i].Refused = w.Asked, w.Refused
		}
	}
	return out
}

// deviceRequests are the requests of operators about devices of all hosts.
type deviceRequests struct {
	cleans   []store.CleanRequest
	disabled []store.DisabledDevice
}

// deviceRequests reads the requests of operators.
func (s *Handlers) deviceRequests(ctx context.Context) (r deviceRequests, err error) {
	if r.cleans, err = s.Devices.CleanRequests(ctx); err != nil {
		return r, err
	}
	r.disabled, err = s.Devices.DisabledDevices(ctx, s.Now())
	return r, err
}

// markForeign shows as allocated what Placement has allocated to consumers that are not placed on the host: no server
// gets these devices. Of several equal devices of a provider the first available ones are marked; which of them is
// meant is not known.
func markForeign(devices []host.Device, foreign []audit.Foreign) {
	for _, f := range foreign {
		for id, amounts := range f.Holds {
			for class, n := range amounts {
				for i := range devices {
					d := &devices[i]
					if n > 0 && d.State == string(pci.Available) && d.Provider == string(id) &&
						d.ResourceClass == string(class) {
						d.State, d.Holder, d.UnknownSince = string(pci.Allocated), f.Consumer, f.Since
						n--
					}
				}
			}
		}
	}
}

// disabledCondition returns the condition of a disabled host.
func disabledCondition(host, reason string) condition.Condition {
	if reason != "" {
		reason = ": " + reason
	}
	return condition.New(condition.Disabled, "", fmt.Sprintf("an operator has disabled this host%s; "+
		"`berth host enable %s` reverses that", reason, host))
}

// deadCondition returns the condition of a host that is declared dead.
func deadCondition(host string) condition.Condition {
	return condition.New(condition.Dead, "", fmt.Sprintf("an operator has declared this host dead; `berth host up %s` "+
		"reverses that, `berth host forget %s` removes the host", host, host))
}

func (s *Handlers) listHosts(c *request.Call) error {
	reports, err := hostReports(c.R.Context(), s, "")
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"hosts": reports})
}

// showHost is GET /berth/v1/hosts/{host}: what listHosts shows of one host.
func (s *Handlers) showHost(c *request.Call) error {
	name := c.R.PathValue("host")
	reports, err := hostReports(c.R.Context(), s, name)
	if err == nil && len(reports) == 0 {
		err = s.UnknownHost(c.R.Context(), name, fault.New(fault.NotFound, "no agent has reported for it"))
	}
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, reports[0])
}

// declared are what operators have declared about hosts.
type declared struct {
	dead     []string
	disabled map[string]string // the reasons
	// since when they are that
	deadSince, disabledSince map[string]time.Time
	accounts                 map[string]string
	requests                 deviceRequests
}

// hostReports returns the last reports of all hosts, or of the one that is named, with what operators have declared.
func hostReports(ctx context.Context, s *Handlers, only string) ([]host.Report, error) {
	var d declared
	hosts, dead, err := s.HostsAndDead(ctx)
	if d.dead = dead; err != nil {
		return nil, err
	}
	if d.requests, err = s.deviceRequests(ctx); err != nil {
		return nil, err
	}
	if d.disabled, err = s.Store.DisabledHosts(ctx); err != nil {
		return nil, err
	}
	if d.deadSince, d.disabledSince, err = s.Store.DeclaredSince(ctx); err != nil {
		return nil, err
	}
	if d.accounts, err = s.boundAccounts(ctx); err != nil {
		return nil, err
	}
	reports, failures := make([]host.Report, 0, len(hosts)), s.Agents.StartFailures()
	for _, h := range hosts {
		if only == "" || h.Name == only {
			reports = append(reports, hostReport(s, h, d))
		}
	}
	maps.DeleteFunc(failures, func(name string, _ presence.StartFailure) bool { return only != "" && name != only })
	reports = withFailures(reports, failures)
	return reports, nameSubjects(ctx, s, reports)
}

// nameSubjects adds the names of the servers that conditions concern.
func nameSubjects(ctx context.Context, s *Handlers, reports []host.Report) error {
	of := map[string][]*condition.Condition{}
	for i := range reports {
		for j := range reports[i].Conditions {
			c := &reports[i].Conditions[j]
			if _, err := uuid.Parse(c.Subject); err == nil {
				of[c.Subject] = append(of[c.Subject], c)
			}
		}
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(of)), store.MaxRead) {
		servers, err := s.Store.ReadServers(ctx, ids)
		if err != nil {
			return err
		}
		for _, server := range servers {
			for _, c := range of[server.ID] {
				c.Server = server.Name
			}
		}
	}
	return nil
}

// hostReport returns the last report of a host.
func hostReport(s *Handlers, h schedule.Host, d declared) host.Report {
	conditions := append(append([]condition.Condition{}, h.Conditions...), s.Conductor.HostConditions(h.Name)...)
	down := slices.Contains(d.dead, h.Name)
	if down {
		conditions = slices.Insert(conditions, 0, deadCondition(h.Name).At(d.deadSince[h.Name]))
	}
	reason, off := d.disabled[h.Name]
	if off {
		conditions = slices.Insert(conditions, 0, disabledCondition(h.Name, reason).At(d.disabledSince[h.Name]))
	}
	connected, quiet := s.Agents.LastSign(h.Name)
	return host.Report{Host: h.Name, Connected: connected, Quiet: quiet.Seconds(),
		SilentAfter: s.Agents.SilentAfter().Seconds(),
		Instance:    h.Instance, Provider: string(h.Provider),
		Devices:    describeDevices(h, d.requests, s.Audits.HostForeign(h.Name)),
		Conditions: conditions, InPlace: h.InPlacement, Seen: h.Seen, Cells: host.WriteCells(h.UsedCells()),
		Counted: writeCounted(h.Counted), CPURatio: h.Limits.CPU, MemRatio: h.Limits.Memory, Dead: down,
		Disabled: off, DisabledReason: reason, Account: d.accounts[h.Name],
		Guests: writePresent(h.Present), NotFollowed: h.NotFollowed, Hypervisor: h.Hypervisor,
		HostIP:      h.HostIP,
		NoDiskMoves: h.NoDiskMoves, MoveAddress: h.MoveAddress, DiskImages: h.DiskImages,
		NoDiskImages: h.NoDiskImages, Down: h.Down}
}

// withFailures adds the failures of starts to the reports of earlier ones. A host that has never reported is added
// without a provider and without anything that it has.
func withFailures(reports []host.Report, failures map[string]presence.StartFailure) []host.Report {
	for name, failure := range failures {
		i := slices.IndexFunc(reports, func(r host.Report) bool { return r.Host == name })
		if i < 0 {
			i = len(reports)
			reports = append(reports, host.Report{Host: name, Devices: []host.Device{},
				Conditions: []condition.Condition{}})
		}
		r := &reports[i]
		r.StartFailed, r.Quiet = failure.Why, failure.Quiet.Seconds()
		text := "its agent cannot report the host since its start, and tries again: " + failure.Why +
			"; nothing is scheduled to it, and what else is shown of it is from before"
		r.Conditions = slices.Insert(r.Conditions, 0, condition.New(condition.StartFailed, "", text).At(failure.Since))
	}
	slices.SortFunc(reports, func(a, b host.Report) int { return strings.Compare(a.Host, b.Host) })
	return reports
}

func (s *Handlers) listDevices(c *request.Call) error {
	hosts, err := s.Store.Hosts(c.R.Context())
	if err != nil {
		return err
	}
	requests, err := s.deviceRequests(c.R.Context())
	if err != nil {
		return err
	}
	devices := []host.Device{}
	for _, h := range hosts {
		devices = append(devices, describeDevices(h, requests, s.Audits.HostForeign(h.Name))...)
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"devices": devices})
}

// showDevice is GET /berth/v1/hosts/{host}/devices/{address}: what listDevices shows of one device.
func (s *Handlers) showDevice(c *request.Call) error {
	name, address := c.R.PathValue("host"), c.R.PathValue("address")
	h, err := s.Store.Host(c.R.Context(), name)
	if err != nil {
		return s.UnknownHost(c.R.Context(), name, err)
	}
	requests, err := s.deviceRequests(c.R.Context())
	if err != nil {
		return err
	}
	var known []string
	for _, d := range describeDevices(h, requests, s.Audits.HostForeign(name)) {
		if strings.EqualFold(d.Address, address) {
			return c.WriteJSON(http.StatusOK, d)
		}
		known = append(known, d.Address)
	}
	return fault.New(fault.NotFound, "host %s has no device %s; %s", name, edge.Clip(address), fault.DidYouMean(address,
		known, "`berth device list --host "+name+"` shows all"))
}

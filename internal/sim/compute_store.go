package sim

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
)

// do makes one call.
func (s *store) do(effect func() error) error {
	before, after := s.process.fault()
	if before != nil {
		return before
	}
	err := effect()
	if after != nil {
		return after
	}
	return err
}

// Read returns a server.
func (s *store) Read(_ context.Context, id string) (server lifecycle.Server, err error) {
	err = s.do(func() error {
		known := false
		if server, known = s.servers[id]; !known {
			return notFound("server", id)
		}
		return nil
	})
	return server, err
}

// Change stores what next makes of a server.
func (s *store) Change(_ context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (
	after lifecycle.Server, err error) {
	err = s.do(func() error {
		before, known := s.servers[id]
		if !known {
			return notFound("server", id)
		}
		after = next(before.WithGroup(s.groupOf(before))).WithGroup(nil)
		s.put(before, after)
		return nil
	})
	return after, err
}

// ChangeWithinQuota is Change: no project has a limit.
func (s *store) ChangeWithinQuota(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (
	lifecycle.Server, error) {
	return s.Change(ctx, id, next)
}

// Create stores new servers.
func (s *store) Create(_ context.Context, servers ...lifecycle.Server) error {
	return s.do(func() error {
		for _, server := range servers {
			s.groups[reservation(server.ID)] = append(s.groups[reservation(server.ID)], server.ID)
			s.put(lifecycle.Server{}, server)
		}
		return nil
	})
}

// Unfinished lists the servers with steps.
func (s *store) Unfinished(_ context.Context, after string, limit int) (ids []string, err error) {
	err = s.do(func() error {
		for _, id := range slices.Sorted(maps.Keys(s.servers)) {
			if id > after && len(ids) < limit && len(s.servers[id].Steps()) > 0 {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

// Hosts lists the reports of all hosts.
func (s *store) Hosts(context.Context) (list []schedule.Host, err error) {
	err = s.do(func() error {
		for _, name := range slices.Sorted(maps.Keys(s.rows)) {
			if s.rows[name].known {
				list = append(list, s.rows[name].report)
			}
		}
		return nil
	})
	return list, err
}

// Roots lists the hosts that have reported, with their root providers.
func (s *store) Roots(ctx context.Context) (list []schedule.HostRoot, err error) {
	hosts, err := s.Hosts(ctx)
	for _, h := range hosts {
		list = append(list, schedule.HostRoot{Name: h.Name, Root: h.Provider})
	}
	return list, err
}

// Host returns the report of a host.
func (s *store) Host(_ context.Context, name string) (host schedule.Host, err error) {
	err = s.do(func() error {
		h := s.states[name]
		if h == nil || !h.row.known {
			return notFound("report of host", name)
		}
		s.beat(h)
		host = h.row.report
		return nil
	})
	return host, err
}

// Reports returns the reports of hosts with the guests that compute has placed there.
func (s *store) Reports(_ context.Context, roots []provider.ID) (all map[provider.ID]schedule.Host, err error) {
	err = s.do(func() error {
		all = map[provider.ID]schedule.Host{}
		for _, root := range roots {
			if m := s.byRoot[root]; m != nil && m.host.row.known {
				s.beat(m.host)
				all[root] = s.withMemory(s.withGuests(m.host))
			}
		}
		return nil
	})
	return all, err
}

// described returns a report with what withMemory takes longest for, which only a new report changes.
func (s *store) described(r schedule.Host) schedule.Host {
	if !s.options.Varied {
		return r
	}
	return r.WithMachine()
}

// withMemory returns a host with the memory of plans for its state, as compute/store does.
func (s *store) withMemory(h schedule.Host) schedule.Host {
	if !s.options.Varied {
		return h // describing the state takes longer than a plan
	}
	h = h.WithFree()
	return h.WithMemory(s.plans.of(h.PlanState()))
}

// withGuests returns the report of a host with the guests of the servers there that have devices or cells.
func (s *store) withGuests(host *hostState) schedule.Host {
	h := host.row.report
	for _, id := range slices.Sorted(maps.Keys(host.servers)) {
		for _, r := range s.servers[id].Residences() {
			if r.Host == h.Name && len(r.Requests)+len(r.Topology) > 0 {
				h.Guests = append(h.Guests, schedule.Guest{ID: r.Consumer, Requests: r.Requests, Devices: r.Devices,
					Cells: r.Topology, Placed: r.Cells})
			}
		}
	}
	s.freeDevices(&h)
	return host.row.devices.withDisabled(h)
}

// freeDevices makes the devices and the NUMA cells of consumers available that are known to be no longer on the host,
// unless the same report has their guests: the report is older than the last report of the guest.
func (s *store) freeDevices(h *schedule.Host) {
	gone := func(id string) bool {
		owner, known := s.owners[id]
		return known && !slices.ContainsFunc(h.Present, func(g schedule.Present) bool { return g.ID == id }) &&
			!slices.ContainsFunc(s.servers[owner].Residences(), func(r lifecycle.Residence) bool {
				return r.Consumer == id && r.Host == h.Name
			})
	}
	h.Devices = slices.Clone(h.Devices)
	for i, d := range h.Devices {
		if (d.State == pci.Claimed || d.State == pci.Allocated) && gone(string(d.Holder)) {
			h.Devices[i].State, h.Devices[i].Holder = pci.Available, ""
		}
	}
	h.Counted = slices.DeleteFunc(slices.Clone(h.Counted), func(g schedule.CountedGuest) bool { return gone(g.ID) })
}

// Purge does nothing: deleted servers are removed at once.
func (s *store) Purge(context.Context, time.Time, int) error { return nil }

// ServerOfConsumer returns the server of a consumer.
func (s *store) ServerOfConsumer(_ context.Context, consumer string) (id string, err error) {
	err = s.do(func() error {
		if id = s.owners[consumer]; id == "" {
			return notFound("server or migration", consumer)
		}
		return nil
	})
	return id, err
}

// IDsOnHost lists the servers with residences on a host.
func (s *store) IDsOnHost(_ context.Context, host string) (ids []string, err error) {
	err = s.do(func() error { ids = s.idsOn(host); return nil })
	return ids, err
}

// IDsOfStatus lists the servers with a status.
func (s *store) IDsOfStatus(_ context.Context, status string) (ids []string, err error) {
	err = s.do(func() error {
		for _, id := range slices.Sorted(maps.Keys(s.servers)) {
			if one := s.servers[id]; one.Status() == status && one.Ended.IsZero() {
				ids = append(ids, id)
			}
		}
		return nil
	})
	return ids, err
}

func (s *store) idsOn(host string) []string {
	if h := s.states[host]; h != nil {
		return slices.Sorted(maps.Keys(h.servers))
	}
	return nil
}

// OnHost returns the servers with residences on a host.
func (s *store) OnHost(_ context.Context, host string) (list []lifecycle.Server, err error) {
	err = s.do(func() error {
		for _, id := range s.idsOn(host) {
			list = append(list, s.servers[id])
		}
		return nil
	})
	return list, err
}

// ByReservation returns the servers of one request.
func (s *store) ByReservation(_ context.Context, beginning string) (list []lifecycle.Server, err error) {
	err = s.do(func() error {
		for _, id := range s.groups[beginning] {
			if server, exists := s.servers[id]; exists {
				list = append(list, server)
			}
		}
		return nil
	})
	return list, err
}

// SetDead records that an operator declares a host dead, or takes that back.
func (s *store) SetDead(_ context.Context, host string, dead bool, _ time.Time) error {
	return s.do(func() error {
		row := s.rows[host]
		if dead && !row.known {
			return notFound("report of host", host)
		}
		s.setDead(host, dead)
		return nil
	})
}

// Dead lists the hosts that an operator has declared dead.
func (s *store) Dead(context.Context) (list []string, err error) {
	err = s.do(func() error { list = s.dead; return nil })
	return list, err
}

// DisabledHosts returns no host: the simulation disables none.
func (*store) DisabledHosts(context.Context) (hosts map[string]string, err error) { return nil, nil }

// Forget removes the report of a host, and its removals.
func (s *store) Forget(_ context.Context, host string) error {
	return s.do(func() error {
		h := s.states[host]
		if len(h.servers) > 0 {
			return fault.New(fault.Conflict, "servers are on host %s", host)
		}
		for _, c := range slices.Sorted(maps.Keys(h.row.removals)) {
			s.removalDone(h.row, c)
		}
		s.setDead(host, false)
		h.row.report, h.row.known, h.row.devices = schedule.Host{}, false, deviceRequests{}
		for _, m := range s.machines(host) {
			m.restoreService()
		}
		s.seq++
		s.raiseRevision(h)
		s.noteForgotten(h)
		return nil
	})
}

// PutReport stores the report of a host if admit accepts it.
func (s *store) PutReport(_ context.Context, r schedule.Host, admit func(known schedule.Host) error) error {
	return s.do(func() error {
		h := s.states[r.Name]
		if h.row.known {
			s.beat(h)
			if err := admit(h.row.report); err != nil {
				return err
			}
		}
		if !s.beats {
			s.checkAdmission(s.sender)
			r = s.described(r)
		}
		h.row.report, h.row.known, h.unheard = r, true, false
		return nil
	})
}

// RecordRemoval records that a guest must be destroyed on a host.
func (s *store) RecordRemoval(_ context.Context, host, consumer, server string) error {
	return s.do(func() error {
		s.recordRemoval(s.states[host].row, consumer, server)
		return nil
	})
}

// RemovalDone deletes a recorded removal.
func (s *store) RemovalDone(_ context.Context, host, consumer string) error {
	return s.do(func() error {
		h := s.states[host]
		if s.removalDone(h.row, consumer) {
			s.seq++
			s.raiseRevision(h)
		}
		return nil
	})
}

// CheckReads returns nil if the database answers.
func (s *store) CheckReads(context.Context) error { return s.do(func() error { return nil }) }

// Revisions returns the epoch of the process and the revisions of the assignments of all hosts.
func (s *store) Revisions(context.Context) (epoch string, revisions map[string]int64, err error) {
	err = s.do(func() error {
		revisions = map[string]int64{}
		for name, h := range s.states {
			if h.row.revision > 0 {
				revisions[name] = h.row.revision
			}
		}
		return nil
	})
	return s.process.epoch.id, revisions, err
}

// RemovalHosts lists the hosts with recorded removals of guests of a server.
func (s *store) RemovalHosts(_ context.Context, server string) (hosts []string, err error) {
	err = s.do(func() error {
		if s.leaving[server] == 0 {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(s.rows)) {
			if slices.Contains(slices.Collect(maps.Values(s.rows[name].removals)), server) {
				hosts = append(hosts, name)
			}
		}
		return nil
	})
	return hosts, err
}

// store gives one process of compute its database, with the rules of compute/store. Each call may fail before or after
// its effect. Deleted servers are removed at once.
type store struct {
	*computeModel
	process *process
}

// noteForgotten notes that compute has forgotten a host, which may have guests.
func (cm *computeModel) noteForgotten(h *hostState) {
	cm.report.Happened["host forgotten"]++
	cm.byName[h.name].orphaned = true
}

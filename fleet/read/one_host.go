package read

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
)

// mostByID is how many servers are read one by one. A tree with more consumers that are on no list of its host, such as
// that of a storage pool, is read with the lists of all servers and migrations.
const mostByID = 500

// wants reports whether one of the parts is read.
func (r *reader) wants(parts ...fleet.Part) bool {
	return slices.ContainsFunc(parts, func(p fleet.Part) bool { return !slices.Contains(r.Without, p) })
}

// oneHost reads what compute has of the host: its hypervisor and service, the servers on it and the moves from and to
// it, and of other hosts the servers that hold something in its tree, or whose moves do.
func (r *reader) oneHost(ctx context.Context) {
	if !r.wants(fleet.Servers, fleet.Migrations, fleet.Hypervisors, fleet.Services) {
		return
	}
	r.gap(fleet.Hypervisors, r.hypervisorOf(ctx))
	service := r.Host
	for _, h := range r.out.Hypervisors {
		service = cmp.Or(h.Host, service)
	}
	if r.wants(fleet.Services) {
		r.gap(fleet.Services, r.serviceOf(ctx, service))
	}
	query := url.Values{"host": {service}}
	if r.wants(fleet.Migrations) {
		r.gap(fleet.Migrations, r.migrations(ctx, query))
	}
	if !r.wants(fleet.Servers) {
		return
	}
	if err := r.servers(ctx, query); err != nil {
		r.gap(fleet.Servers, err)
		return
	}
	missing := r.unlisted()
	if len(missing) <= mostByID {
		r.gap(fleet.Servers, r.serversByID(ctx, missing))
		return
	}
	r.out.Servers, r.out.Migrations = nil, nil
	r.gap(fleet.Servers, r.servers(ctx, url.Values{}))
	if r.wants(fleet.Migrations) {
		r.gap(fleet.Migrations, r.migrations(ctx, url.Values{}))
	}
}

// hypervisorOf reads the hypervisor with the name of the host, if compute has one. A pattern of Nova matches parts of
// names; a name that cannot be one of a hypervisor is refused.
func (r *reader) hypervisorOf(ctx context.Context) error {
	var body struct {
		Hypervisors []compute.Hypervisor `json:"hypervisors"`
	}
	err := again(ctx, func() error {
		_, err := r.withoutUptime().REST.Do(ctx, http.MethodGet, "/v2.1/os-hypervisors/detail?"+
			url.Values{"hypervisor_hostname_pattern": {r.Host}}.Encode(), nil, &body)
		return err
	})
	if rest.StatusOf(err) != nil && (fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid)) {
		return nil
	}
	for _, h := range body.Hypervisors {
		if h.Hostname == r.Host {
			r.addHypervisor(h)
		}
	}
	return err
}

// serviceOf reads the compute service of the host.
func (r *reader) serviceOf(ctx context.Context, host string) error {
	var list []compute.ServiceDoc
	err := again(ctx, func() (err error) {
		list, err = r.Compute.ServicesOf(ctx, host)
		return err
	})
	r.out.Services = append(r.out.Services, services(list)...)
	return err
}

// unlisted returns the ids of the consumers of the tree that no list has, which may be servers on other hosts, and
// those of the servers whose moves hold something there, sorted.
func (r *reader) unlisted() []string {
	servers, moves := map[string]bool{}, map[string]string{}
	for _, s := range r.out.Servers {
		servers[s.ID] = true
	}
	for _, m := range r.out.Migrations {
		moves[m.UUID] = m.Server
	}
	missing := map[string]bool{}
	for _, p := range r.out.Providers {
		for consumer := range p.Held {
			id := string(consumer)
			if of, moves := moves[id]; moves {
				id = of
			}
			if !servers[id] {
				missing[id] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// serversByID reads servers one by one. Compute does not know those that are consumers of other services.
func (r *reader) serversByID(ctx context.Context, ids []string) error {
	found := make([]*fleet.Server, len(ids))
	failed, err := r.each(ctx, len(ids), func(i int) error {
		s, err := r.Compute.ServerByID(ctx, ids[i])
		if fault.Is(err, fault.NotFound) && rest.StatusOf(err) != nil {
			return nil
		}
		if err == nil {
			one := Server(s)
			found[i] = &one
		}
		return err
	})
	for _, s := range found {
		if s != nil {
			r.out.Servers = append(r.out.Servers, *s)
		}
	}
	if err != nil {
		err = fmt.Errorf("%d of %d servers were not read: %w", failed, len(ids), err)
	}
	return err
}

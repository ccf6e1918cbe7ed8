package read

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// least is the oldest microversion that a compute service must have: flavors in servers (2.47), ids of hypervisors and
// services (2.53), migrations as consumers (2.59).
const least compute.Version = 61

// Kind is what Negotiate finds out of a compute service.
type Kind struct {
	Berth bool // it is Berth's: it has /berth/v1
}

// Negotiate reads the version document of a compute service and makes the client use the newest microversion that both
// have. It returns fault.Invalid if the service is too old.
func Negotiate(ctx context.Context, client *compute.Client) (Kind, error) {
	var doc struct {
		Versions []struct {
			ID      string         `json:"id"`
			Version string         `json:"version"`
			Links   []compute.Link `json:"links"`
		} `json:"versions"`
	}
	if _, err := client.REST.Do(ctx, http.MethodGet, "/", nil, &doc); err != nil {
		return Kind{}, fmt.Errorf("the version document of the compute service: %w", err)
	}
	for _, v := range doc.Versions {
		if v.ID != "v2.1" {
			continue
		}
		newest, err := strconv.Atoi(strings.TrimPrefix(v.Version, "2."))
		if err != nil || compute.Version(newest) < least {
			return Kind{}, fault.New(fault.Invalid, "the compute service has microversion %q: %s or newer is needed, "+
				"which OpenStack has since Rocky", v.Version, least)
		}
		use := min(compute.Version(newest), compute.Max)
		client.REST = at(client.REST, use)
		for _, l := range v.Links {
			if l.Rel == compute.BerthLink {
				return Kind{Berth: true}, nil
			}
		}
		return Kind{}, nil
	}
	return Kind{}, fault.New(fault.Invalid, "the compute service has no version v2.1 in its version document; "+
		"check the address of the compute service")
}

// at returns a client that uses a microversion.
func at(client *rest.Client, version compute.Version) *rest.Client {
	return client.WithHeader(compute.VersionHeader, compute.Service+" "+version.String()).
		WithHeader(compute.LegacyVersionHeader, version.String())
}

// servers reads the servers that a query selects, and those that are deleted softly: they keep their allocations.
func (r *reader) servers(ctx context.Context, of url.Values) error {
	for _, l := range []compute.ListServers{{}, {Deleted: true, Status: "SOFT_DELETED"}} {
		query := maps.Clone(of)
		query.Set("all_tenants", "1")
		if l.Deleted {
			query.Set("deleted", "true")
			query.Set("status", l.Status)
		}
		list, err := pages(ctx, r.Compute, "/v2.1/servers/detail", "servers", query,
			func(s compute.Server) string { return s.ID })
		if err != nil {
			return err
		}
		for _, s := range list {
			if !l.Deleted || s.VMState == "soft-delete" || s.Status == "SOFT_DELETED" {
				r.out.Servers = append(r.out.Servers, Server(s))
			}
		}
	}
	return nil
}

// Server converts a server.
func Server(s compute.Server) fleet.Server {
	out := fleet.Server{ID: s.ID, Name: s.Name, Project: s.ProjectID, User: s.UserID, Status: s.Status,
		VMState: s.VMState, TaskState: text(s.TaskState), FromVolume: s.Image == nil || s.Image == "",
		Updated: s.Updated.Time, FlavorUnknown: s.Flavor.FlavorValues == nil}
	if s.Place != nil {
		out.Host, out.Node = text(s.Host), text(s.Hypervisor)
	}
	if f := s.Flavor.FlavorValues; f != nil {
		out.Flavor = fleet.Flavor{Name: f.Name, VCPUs: f.VCPUs, MemoryMB: f.RAM, DiskGB: f.Disk,
			Ephemeral: f.Ephemeral, Swap: f.Swap, ExtraSpecs: f.ExtraSpecs}
	}
	if i, ok := s.Image.(map[string]any); ok {
		properties, known := i["properties"].(map[string]any)
		if !known {
			out.ImageUnknown, _ = i["id"].(string)
		}
		out.ImageProperties = map[string]string{}
		for name, value := range properties {
			out.ImageProperties[name] = fmt.Sprint(value)
		}
	}
	if s.Fault != nil {
		out.Fault = s.Fault.Message
	}
	return out
}

// Flavor converts a flavor.
func Flavor(f compute.Flavor) fleet.Flavor {
	return fleet.Flavor{ID: f.ID, Name: f.Name, VCPUs: f.VCPUs, MemoryMB: f.RAM, DiskGB: f.Disk, Ephemeral: f.Ephemeral,
		Swap: int(f.Swap), ExtraSpecs: f.ExtraSpecs}
}

// text returns the text at p; empty for nil.
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

const pageSize = 1000

// pages reads a list of compute in pages. marker returns the marker of an element.
func pages[T any](ctx context.Context, client *compute.Client, path, key string, query url.Values,
	marker func(T) string) ([]T, error) {
	var all []T
	query.Set("limit", strconv.Itoa(pageSize))
	for {
		var body map[string][]T
		var more []compute.Link
		err := again(ctx, func() error {
			body = nil
			return page(ctx, client, path+"?"+query.Encode(), key, &body, &more)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, body[key]...)
		if len(more) == 0 || len(body[key]) == 0 {
			return all, nil
		}
		last := marker(all[len(all)-1])
		if last == query.Get("marker") {
			return nil, fault.New(fault.Internal, "the list %s does not end: its page after %s ends with %s", path, last, last)
		}
		query.Set("marker", last)
	}
}

// page reads a page of a list of compute, and the links to the next one.
func page(ctx context.Context, client *compute.Client, path, key string, into any, next *[]compute.Link) error {
	var doc map[string]json.RawMessage
	if _, err := client.REST.Do(ctx, http.MethodGet, path, nil, &doc); err != nil {
		return err
	}
	*next = nil
	if links, ok := doc[key+"_links"]; ok {
		if err := json.Unmarshal(links, next); err != nil {
			return fault.Wrap(fault.Internal, err)
		}
	}
	list, err := json.Marshal(map[string]json.RawMessage{key: doc[key]})
	if err == nil {
		err = json.Unmarshal(list, into)
	}
	return fault.Wrap(fault.Internal, err)
}

// migrations reads the migrations that a query selects.
func (r *reader) migrations(ctx context.Context, of url.Values) error {
	list, err := pages(ctx, r.Compute, "/v2.1/os-migrations", "migrations", maps.Clone(of),
		func(m compute.Migration) string { return m.UUID })
	for _, m := range list {
		out := fleet.Migration{UUID: m.UUID, Server: m.Instance, Kind: m.Kind, Status: m.Status,
			SourceHost: text(m.SourceHost), SourceNode: text(m.SourceNode), DestHost: text(m.DestHost),
			DestNode: text(m.DestNode)}
		out.Updated, _ = time.Parse("2006-01-02T15:04:05.000000", cmp.Or(text(m.Updated), m.Created))
		r.out.Migrations = append(r.out.Migrations, out)
	}
	return err
}

// withoutUptime is the last microversion in which the details of hypervisors have no uptime.
const withoutUptime compute.Version = 87

// withoutUptime returns a client for the details of hypervisors. From 2.88 on Nova asks each host for its uptime to
// answer, so the microversion is older.
func (r *reader) withoutUptime() *compute.Client {
	version := strings.TrimPrefix(r.Compute.REST.Headers[compute.VersionHeader], compute.Service+" 2.")
	if n, err := strconv.Atoi(version); err == nil && compute.Version(n) <= withoutUptime {
		return r.Compute
	}
	return &compute.Client{REST: at(r.Compute.REST, withoutUptime)}
}

// hypervisors reads the hypervisors.
func (r *reader) hypervisors(ctx context.Context) error {
	list, err := pages(ctx, r.withoutUptime(), "/v2.1/os-hypervisors/detail", "hypervisors", url.Values{},
		func(h compute.Hypervisor) string { return fmt.Sprint(h.ID) })
	for _, h := range list {
		r.addHypervisor(h)
	}
	return err
}

func (r *reader) addHypervisor(h compute.Hypervisor) {
	r.out.Hypervisors = append(r.out.Hypervisors, fleet.Hypervisor{ID: provider.ID(fmt.Sprint(h.ID)), Name: h.Hostname,
		Host: h.Service.Host})
}

// services reads the compute services of hosts.
func (r *reader) services(ctx context.Context) error {
	list, err := r.listServices(ctx)
	r.out.Services = append(r.out.Services, list...)
	return err
}

// servicesAgain reads the compute services once more, after the other lists. Nova leaves out of its lists what is in a
// cell that does not answer. So a service whose cell has answered only one of the two reads counts as silent.
func (r *reader) servicesAgain(ctx context.Context) error {
	list, err := r.listServices(ctx)
	if err != nil {
		return err
	}
	first, second := answering(r.out.Services), answering(list)
	for i := range r.out.Services {
		if s := &r.out.Services[i]; !second[s.Host] {
			s.Status = fleet.StatusUnknown
		}
	}
	for _, s := range list {
		if _, listed := first[s.Host]; !listed {
			s.Status = fleet.StatusUnknown
			r.out.Services = append(r.out.Services, s)
		}
	}
	return nil
}

// answering returns the hosts of services, and whether the cells of these have answered.
func answering(list []fleet.Service) map[string]bool {
	hosts := map[string]bool{}
	for _, s := range list {
		hosts[s.Host] = s.Status != fleet.StatusUnknown
	}
	return hosts
}

func (r *reader) listServices(ctx context.Context) (list []fleet.Service, err error) {
	err = again(ctx, func() error {
		docs, err := r.Compute.Services(ctx)
		list = services(docs)
		return err
	})
	return list, err
}

// services converts services.
func services(docs []compute.ServiceDoc) (list []fleet.Service) {
	for _, s := range docs {
		list = append(list, fleet.Service{Host: s.Host, Zone: s.Zone, State: s.State, Status: s.Status,
			Reason: text(s.Reason), ForcedDown: s.ForcedDown != nil && *s.ForcedDown})
	}
	return list
}

// reported reads the devices in the reports of Berth's agents.
func (r *reader) reported(ctx context.Context) error {
	if r.Hosts == nil {
		return nil
	}
	list, err := r.Hosts.Devices(ctx)
	for _, d := range list {
		r.out.Reported = append(r.out.Reported, fleet.ReportedDevice{Host: d.Host, Address: d.Address,
			Provider: provider.ID(d.Provider), Holder: consumer(d.Holder)})
	}
	return err
}

// Unlisted returns which of the consumers are servers that compute has although its lists do not: nothing of those may
// be released. A consumer for which compute does not answer is one of them.
func Unlisted(ctx context.Context, client *compute.Client, of []resource.ConsumerID) (all []resource.ConsumerID) {
	r := &reader{Options: Options{Parallel: 16}}
	exists := make([]bool, len(of))
	r.each(ctx, len(of), func(i int) error { // an error leaves exists true
		exists[i] = true
		_, err := client.ServerByID(ctx, string(of[i]))
		if fault.Is(err, fault.NotFound) && rest.StatusOf(err) != nil {
			exists[i], err = false, nil
		}
		return err
	})
	for i, consumer := range of {
		if exists[i] || ctx.Err() != nil {
			all = append(all, consumer)
		}
	}
	return all
}

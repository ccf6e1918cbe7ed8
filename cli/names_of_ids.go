package cli

import (
	"context"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/provider"
)

// LongOutput is the flag of commands whose tables show names.
type LongOutput struct {
	Long bool `help:"Show ids instead of names, and everything that the table shortens."`
}

// maxSingleReads is how many servers are read one by one to find their names; of more, the list of all is read.
const maxSingleReads = 20

// names are the names of objects by id. An id without a name is its own name.
type names map[string]string

// of returns the name of an id.
func (n names) of(id string) string {
	if name := n[id]; name != "" {
		return name
	}
	return id
}

// both returns the name followed by the id.
func (n names) both(id string) string {
	if name := n[id]; name != "" && name != id {
		return name + " (" + id + ")"
	}
	return id
}

// consumerNames returns the names of servers and of their migrations, which hold allocations and devices. It leaves out
// what the services do not return: the ids are shown instead.
func (g *Globals) consumerNames(ctx context.Context, ids []string) names {
	found, client := names{}, g.compute()
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	if len(ids) > maxSingleReads {
		if list, err := client.Servers(ctx, compute.ListServers{AllProjects: true}); err == nil {
			for _, s := range list {
				found[s.ID] = s.Name
			}
		}
	} else {
		for _, id := range ids {
			if s, err := client.ServerByID(ctx, id); err == nil {
				found[id] = s.Name
			}
		}
	}
	if !slices.ContainsFunc(ids, func(id string) bool { return found[id] == "" }) {
		return found
	}
	moves, err := client.Migrations(ctx, "")
	if err != nil {
		return found
	}
	for _, m := range moves {
		if found[m.UUID] != "" || !slices.Contains(ids, m.UUID) {
			continue
		}
		if s, err := client.ServerByID(ctx, m.Instance); err == nil {
			found[m.UUID] = m.Kind + " of " + s.Name
		}
	}
	return found
}

// providerNames returns the names of the providers that the query selects; nothing if Placement does not answer.
func (g *Globals) providerNames(ctx context.Context, query url.Values) names {
	return ProviderNames(ctx, g.placement(), query)
}

// ProviderNames returns the names of the providers that the query selects, by id; nothing if Placement does not answer.
func ProviderNames(ctx context.Context, client *placement.Client, query url.Values) map[string]string {
	found := names{}
	list, err := client.Providers(ctx, query)
	if err != nil {
		return found
	}
	return namesOf(list)
}

// namesOf returns the names of providers by id.
func namesOf(list []provider.Provider) names {
	found := names{}
	for _, p := range list {
		found[string(p.ID)] = p.Name
	}
	return found
}

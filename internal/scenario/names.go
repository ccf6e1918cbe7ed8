package scenario

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/openberth/berth/api/compute"
)

// names are the names of objects of a cloud by their ids. Objects that are deleted keep theirs.
type names struct {
	cloud *cloud
	byID  map[string]string
}

var times = regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`)

var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// shown replaces the ids in a text by the names of their objects in braces, those of unknown objects by {id}, and times
// by {time}.
func (n *names) shown(text string) string {
	return uuids.ReplaceAllStringFunc(times.ReplaceAllString(text, "{time}"), func(id string) string {
		if len(n.find(func(i, _ string) bool { return i == id })) > 0 {
			return "{" + n.byID[id] + "}"
		}
		return "{id}"
	})
}

var braces = regexp.MustCompile(`\{([A-Za-z][^{}"]*)\}`)

// expand replaces names in braces by the ids of their objects. The newest migration of a server a is {migration of a}.
func (n *names) expand(text string) (string, error) {
	if braces.MatchString(text) {
		n.read(n.cloud.t.Context())
	}
	var unknown error
	return braces.ReplaceAllStringFunc(text, func(name string) string {
		name = strings.Trim(name, "{}")
		ids := n.find(func(_, is string) bool { return is == name })
		if len(ids) != 1 {
			unknown = fmt.Errorf("%d objects have the name %q", len(ids), name)
			return ""
		}
		return ids[0]
	}), unknown
}

// find returns the ids of the objects for which is returns true. It reads the objects of the cloud if it knows none.
func (n *names) find(is func(id, name string) bool) (ids []string) {
	for attempt := 0; attempt < 2 && len(ids) == 0; attempt++ {
		if attempt > 0 {
			n.read(n.cloud.t.Context())
		}
		for id, name := range n.byID {
			if is(id, name) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// read reads the names of all objects. It leaves out what cannot be read, such as while a service is stopped.
func (n *names) read(ctx context.Context) {
	found := map[string]string{}
	servers, _ := n.cloud.compute().Servers(ctx, compute.ListServers{AllProjects: true})
	for _, s := range servers {
		found[s.ID] = s.Name
		if moves, err := n.cloud.compute().Migrations(ctx, s.ID); err == nil && len(moves) > 0 {
			found[moves[0].UUID] = "migration of " + s.Name
		}
	}
	flavors, _ := n.cloud.compute().Flavors(ctx)
	for _, f := range flavors {
		found[f.ID] = f.Name
	}
	n.readProviders(ctx, found)
	if n.cloud.services["network"].running != nil {
		n.readNetwork(ctx, found)
	}
	if n.byID == nil {
		n.byID = map[string]string{}
	}
	for id, name := range found {
		for other, same := range n.byID { // a deleted object with that name, or an earlier migration
			if _, exists := found[other]; same == name && !exists {
				delete(n.byID, other)
			}
		}
		n.byID[id] = name
	}
}

// readProviders reads the names of the providers of all hosts.
func (n *names) readProviders(ctx context.Context, found map[string]string) {
	for name := range n.cloud.hosts {
		root, err := n.cloud.placement().ProviderByName(ctx, name)
		if err != nil {
			continue
		}
		tree, _ := n.cloud.placement().Tree(ctx, root.ID)
		for _, p := range tree.Providers {
			found[string(p.ID)] = p.Name
		}
	}
}

// readNetwork reads the names of networks, ports and policies.
func (n *names) readNetwork(ctx context.Context, found map[string]string) {
	networks, _ := n.cloud.network().Networks(ctx, nil)
	for _, one := range networks {
		found[one.ID] = one.Name
	}
	ports, _ := n.cloud.network().Ports(ctx, nil)
	for _, one := range ports {
		if one.Name != "" {
			found[one.ID] = one.Name
		}
	}
	policies, _ := n.cloud.network().Policies(ctx, nil)
	for _, one := range policies {
		found[one.ID] = one.Name
	}
}

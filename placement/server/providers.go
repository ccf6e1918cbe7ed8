package server

import (
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func providerPath(id provider.ID) string { return "/resource_providers/" + string(id) }

// providerDoc returns a provider in the form of the call's microversion.
func (c *call) providerDoc(p store.Provider) object {
	self := c.Prefix() + providerPath(p.ID)
	links := []api.Link{{Rel: "self", Href: self}}
	for _, l := range []struct {
		rel   string
		since api.Version
	}{
		{"inventories", 0}, {"usages", 0}, {"aggregates", sinceAggregatesLink}, {"traits", sinceTraitsLink},
		{"allocations", sinceAllocationsLink},
	} {
		if c.version >= l.since {
			links = append(links, api.Link{Rel: l.rel, Href: self + "/" + l.rel})
		}
	}
	d := object{"uuid": p.ID, "name": p.Name, "generation": p.Generation, "links": links}
	if c.version >= sinceNesting {
		d["parent_provider_uuid"], d["root_provider_uuid"] = nullable(p.Parent), p.Root
	}
	return d
}

// nullable returns nil, which is encoded as null, for the empty text.
func nullable[T ~string](text T) any {
	if text == "" {
		return nil
	}
	return text
}

// newest returns the latest of several times; the zero time for an empty list, which setModified sends as now.
func newest[T any](list []T, at func(T) time.Time) (out time.Time) {
	for _, item := range list {
		if t := at(item); t.After(out) {
			out = t
		}
	}
	return out
}

func (c *call) listProviders() error {
	values, err := c.query()
	if err != nil {
		return err
	}
	q, err := api.ParseProviderQuery(c.version, values)
	if err != nil {
		return err
	}
	if err := c.server.names.Check(c.Context(), []resource.Group{q.Group}); err != nil {
		if err = c.unknownInList(q, err); err != nil {
			return err
		}
		c.setModified(time.Time{})
		return c.sendList("resource_providers", 0, nil)
	}
	list, err := c.server.store.Providers(c.Context(), store.Filter{Name: q.Name, ID: q.ID, InTree: q.Group.InTree,
		MemberOf: q.Group.MemberOf, NotMemberOf: q.Group.NotMemberOf})
	if err != nil {
		return err
	}
	if len(q.Group.Resources)+len(q.Group.Required)+len(q.Group.Forbidden) > 0 {
		snapshot, err := c.server.index.CatchUp(c.Context())
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(p store.Provider) bool {
			row, ok := snapshot.Row(p.ID)
			return !ok || !meets(row, q.Group)
		})
	}
	c.setModified(newest(list, func(p store.Provider) time.Time { return p.Modified }))
	return c.sendList("resource_providers", len(list), func(i int) any { return c.providerDoc(list[i]) })
}

// meets reports whether a provider alone has the resources and the traits of a group.
func meets(row index.Row, g resource.Group) bool {
	for class, amount := range g.Resources {
		inv, ok := row.Inventories[class]
		if !ok || !inv.Fits(row.Used[class], amount) {
			return false
		}
	}
	for _, any := range g.Required {
		if !slices.ContainsFunc(any, row.HasTrait) {
			return false
		}
	}
	return !slices.ContainsFunc(g.Forbidden, row.HasTrait)
}

func (c *call) createProvider() error {
	var in api.NewProvider
	if err := c.read(api.BodyNewProvider, &in); err != nil {
		return err
	}
	id := string(in.UUID)
	if id == "" {
		id = c.server.newID()
	} else if canonical, ok := api.CanonicalUUID(id); ok {
		id = canonical
	}
	if in.Name == "" {
		return fault.New(fault.Invalid, "Unable to create resource provider %s: a name is required", id)
	}
	p, change, err := c.server.store.CreateProvider(c.Context(), provider.ID(id), in.Name, text(in.Parent))
	if err != nil {
		return err
	}
	c.applyDelta(change, liveindex.Delta{ID: p.ID, Parent: p.Parent, Before: -1,
		Change: func(r *index.Row) { r.Name = p.Name }})
	c.setLocation(providerPath(p.ID))
	if c.version < sinceCreatedBody {
		return c.WriteStatus(http.StatusCreated)
	}
	c.setModified(p.Modified)
	return c.sendJSON(http.StatusOK, c.providerDoc(p))
}

// text returns the text that a pointer points to; empty for nil.
func text[T ~string](p *T) T {
	if p == nil {
		return ""
	}
	return *p
}

func (c *call) showProvider() error {
	p, err := c.server.store.Provider(c.Context(), c.provider())
	if err != nil {
		return err
	}
	c.setModified(p.Modified)
	return c.sendJSON(http.StatusOK, c.providerDoc(p))
}

func (c *call) updateProvider() error {
	var in map[string]*string // an omitted parent and a null parent differ
	if err := c.readExisting(api.BodyProvider, &in); err != nil {
		return err
	}
	parent, move := in["parent_provider_uuid"]
	to := store.Update{Name: text(in["name"]), Move: move, Parent: provider.ID(text(parent)),
		Free: c.version >= sinceReparenting}
	p, change, err := c.server.store.UpdateProvider(c.Context(), c.provider(), to)
	if err != nil {
		return err
	}
	c.refresh(change)
	c.setModified(p.Modified)
	return c.sendJSON(http.StatusOK, c.providerDoc(p))
}

// readExisting reads the body of a request about a provider. If the body is not valid and the provider does not exist,
// it returns the error about the provider.
func (c *call) readExisting(body api.Body, into any) error {
	err := c.read(body, into)
	if err == nil || edge.StatusOf(err) != http.StatusBadRequest {
		return err
	}
	return c.missingOr(err)
}

// missingOr returns fault.NotFound if the provider in the path does not exist, otherwise err. The original checks the
// provider first.
func (c *call) missingOr(err error) error {
	if _, missing := c.server.store.Provider(c.Context(), c.provider()); missing != nil {
		return missing
	}
	return err
}

func (c *call) deleteProvider() error {
	change, err := c.server.store.DeleteProvider(c.Context(), c.provider())
	if err != nil {
		return err
	}
	c.refresh(change)
	return c.WriteStatus(http.StatusNoContent)
}

func (c *call) sendAggregates(generation int, all []resource.AggregateID) error {
	d := object{"aggregates": append([]resource.AggregateID{}, all...)}
	if c.version >= sinceAggregateGuard {
		d["resource_provider_generation"] = generation
	}
	c.setModified(time.Time{})
	return c.sendJSON(http.StatusOK, d)
}

func (c *call) listAggregates() error {
	all, err := c.server.store.Aggregates(c.Context(), c.provider())
	if err != nil {
		return err
	}
	return c.sendAggregates(all.Generation, all.Aggregates)
}

func (c *call) replaceAggregates() error {
	var in api.AggregatesDoc
	var generation *int
	var err error
	if c.version >= sinceAggregateGuard {
		generation = &in.Generation
		err = c.readExisting(api.BodyAggregates, &in)
	} else {
		err = c.readExisting(api.BodyAggregates, &in.Aggregates)
	}
	if err != nil {
		return err
	}
	change, err := c.server.store.ReplaceAggregates(c.Context(), c.provider(), generation, in.Aggregates)
	if err != nil {
		return err
	}
	c.refresh(change)
	return c.sendAggregates(change.Generation, in.Aggregates)
}

package resources

import (
	"net/http"
	"slices"
	"time"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

func providerPath(id provider.ID) string { return "/resource_providers/" + string(id) }

// providerDoc returns a provider in the form of the call's microversion.
func providerDoc(c *request.Call, p store.Provider) request.Object {
	self := c.Prefix() + providerPath(p.ID)
	links := []api.Link{{Rel: "self", Href: self}}
	for _, l := range []struct {
		rel   string
		since api.Version
	}{
		{"inventories", 0}, {"usages", 0}, {"aggregates", request.SinceAggregatesLink},
		{"traits", request.SinceTraitsLink},
		{"allocations", request.SinceAllocationsLink},
	} {
		if c.Microversion >= l.since {
			links = append(links, api.Link{Rel: l.rel, Href: self + "/" + l.rel})
		}
	}
	d := request.Object{"uuid": p.ID, "name": p.Name, "generation": p.Generation, "links": links}
	if c.Microversion >= request.SinceNesting {
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

// newest returns the latest of several times; the zero time for an empty list, which SetModified sends as now.
func newest[T any](list []T, at func(T) time.Time) (out time.Time) {
	for _, item := range list {
		if t := at(item); t.After(out) {
			out = t
		}
	}
	return out
}

func listProviders(c *request.Call) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	q, err := api.ParseProviderQuery(c.Microversion, values)
	if err != nil {
		return err
	}
	if err := c.Service.Names.Check(c.Context(), []resource.Group{q.Group}); err != nil {
		if err = c.UnknownInList(q, err); err != nil {
			return err
		}
		c.SetModified(time.Time{})
		return c.SendList("resource_providers", 0, nil)
	}
	list, err := c.Service.Store.Providers(c.Context(), store.Filter{Name: q.Name, ID: q.ID, InTree: q.Group.InTree,
		MemberOf: q.Group.MemberOf, NotMemberOf: q.Group.NotMemberOf})
	if err != nil {
		return err
	}
	if len(q.Group.Resources)+len(q.Group.Required)+len(q.Group.Forbidden) > 0 {
		snapshot, err := c.Service.Index.CatchUp(c.Context())
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(p store.Provider) bool {
			row, ok := snapshot.Row(p.ID)
			return !ok || !meets(row, q.Group)
		})
	}
	c.SetModified(newest(list, func(p store.Provider) time.Time { return p.Modified }))
	return c.SendList("resource_providers", len(list), func(i int) any { return providerDoc(c, list[i]) })
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

func createProvider(c *request.Call) error {
	var in api.NewProvider
	if err := c.Read(api.BodyNewProvider, &in); err != nil {
		return err
	}
	id := string(in.UUID)
	if id == "" {
		id = c.Service.NewID()
	} else if canonical, ok := api.CanonicalUUID(id); ok {
		id = canonical
	}
	if in.Name == "" {
		return fault.New(fault.Invalid, "Unable to create resource provider %s: a name is required", id)
	}
	p, change, err := c.Service.Store.CreateProvider(c.Context(), provider.ID(id), in.Name, text(in.Parent))
	if err != nil {
		return err
	}
	applyDelta(c, change, liveindex.Delta{ID: p.ID, Parent: p.Parent, Before: -1,
		Change: func(r *index.Row) { r.Name = p.Name }})
	c.SetLocation(providerPath(p.ID))
	if c.Microversion < request.SinceCreatedBody {
		return c.WriteStatus(http.StatusCreated)
	}
	c.SetModified(p.Modified)
	return c.SendJSON(http.StatusOK, providerDoc(c, p))
}

// text returns the text that a pointer points to; empty for nil.
func text[T ~string](p *T) T {
	if p == nil {
		return ""
	}
	return *p
}

func showProvider(c *request.Call) error {
	p, err := c.Service.Store.Provider(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	c.SetModified(p.Modified)
	return c.SendJSON(http.StatusOK, providerDoc(c, p))
}

func updateProvider(c *request.Call) error {
	var in map[string]*string // an omitted parent and a null parent differ
	if err := readExisting(c, api.BodyProvider, &in); err != nil {
		return err
	}
	parent, move := in["parent_provider_uuid"]
	to := store.Update{Name: text(in["name"]), Move: move, Parent: provider.ID(text(parent)),
		Free: c.Microversion >= request.SinceReparenting}
	p, change, err := c.Service.Store.UpdateProvider(c.Context(), c.Provider(), to)
	if err != nil {
		return err
	}
	refresh(c, change)
	c.SetModified(p.Modified)
	return c.SendJSON(http.StatusOK, providerDoc(c, p))
}

// readExisting reads the body of a request about a provider. If the body is not valid and the provider does not exist,
// it returns the error about the provider.
func readExisting(c *request.Call, body api.Body, into any) error {
	err := c.Read(body, into)
	if err == nil || edge.StatusOf(err) != http.StatusBadRequest {
		return err
	}
	return missingOr(c, err)
}

// missingOr returns fault.NotFound if the provider in the path does not exist, otherwise err. The original checks the
// provider first.
func missingOr(c *request.Call, err error) error {
	if _, missing := c.Service.Store.Provider(c.Context(), c.Provider()); missing != nil {
		return missing
	}
	return err
}

func deleteProvider(c *request.Call) error {
	change, err := c.Service.Store.DeleteProvider(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	refresh(c, change)
	return c.WriteStatus(http.StatusNoContent)
}

func sendAggregates(c *request.Call, generation int, all []resource.AggregateID) error {
	d := request.Object{"aggregates": append([]resource.AggregateID{}, all...)}
	if c.Microversion >= request.SinceAggregateGuard {
		d["resource_provider_generation"] = generation
	}
	c.SetModified(time.Time{})
	return c.SendJSON(http.StatusOK, d)
}

func listAggregates(c *request.Call) error {
	all, err := c.Service.Store.Aggregates(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	return sendAggregates(c, all.Generation, all.Aggregates)
}

func replaceAggregates(c *request.Call) error {
	var in api.AggregatesDoc
	var generation *int
	var err error
	if c.Microversion >= request.SinceAggregateGuard {
		generation = &in.Generation
		err = readExisting(c, api.BodyAggregates, &in)
	} else {
		err = readExisting(c, api.BodyAggregates, &in.Aggregates)
	}
	if err != nil {
		return err
	}
	change, err := c.Service.Store.ReplaceAggregates(c.Context(), c.Provider(), generation, in.Aggregates)
	if err != nil {
		return err
	}
	refresh(c, change)
	return sendAggregates(c, change.Generation, in.Aggregates)
}

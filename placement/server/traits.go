package server

import (
	"net/http"
	"strings"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/resource"
)

func traitNames(list []store.Trait) []resource.Trait {
	out := make([]resource.Trait, len(list))
	for i, t := range list {
		out[i] = t.Name
	}
	return out
}

func traitModified(t store.Trait) time.Time { return t.Modified }

func (c *call) listTraits() error {
	q, err := c.query()
	if err != nil {
		return err
	}
	var filter store.TraitFilter
	for key, values := range q {
		last := values[len(values)-1]
		switch key {
		case "name":
			err = filterNames(&filter, last)
		case "associated":
			yes := strings.EqualFold(last, "true")
			if !yes && !strings.EqualFold(last, "false") {
				err = fault.New(fault.Invalid, "associated=%q is not valid; use true or false", last)
			}
			filter.Associated = &yes
		default:
			err = fault.New(fault.Invalid, "Invalid query string parameters: there is no parameter %q", key)
		}
		if err != nil {
			return err
		}
	}
	list, err := c.server.store.Traits(c.Context(), filter)
	if err != nil {
		return err
	}
	c.setModified(newest(list, traitModified))
	return c.sendJSON(http.StatusOK, object{"traits": traitNames(list)})
}

// filterNames parses `in:A,B` or `startswith:A` into a filter. As in the original, any other word before the colon
// selects all traits.
func filterNames(filter *store.TraitFilter, value string) error {
	op, list, ok := strings.Cut(value, ":")
	switch {
	case !ok:
		return fault.New(fault.Invalid, "name=%q is not valid; use in:NAME,NAME or startswith:PREFIX", value)
	case op == "in":
		filter.In = []resource.Trait{}
		for name := range strings.SplitSeq(list, ",") {
			filter.In = append(filter.In, resource.Trait(name))
		}
	case op == "startswith":
		filter.Prefix = list
	}
	return nil
}

func (c *call) showTrait() error {
	t, err := c.server.store.Trait(c.Context(), resource.Trait(c.R.PathValue("name")))
	if err != nil {
		return err
	}
	c.setModified(t.Modified)
	return c.WriteStatus(http.StatusNoContent)
}

func (c *call) putTrait() error {
	name := c.R.PathValue("name")
	if !resource.IsCustom(name) {
		return fault.New(fault.Invalid, "The trait %q is not valid: "+
			"a custom trait is CUSTOM_ followed by A-Z, 0-9 and _, 255 characters at most", name)
	}
	t, created, err := c.server.store.EnsureTrait(c.Context(), resource.Trait(name))
	if err != nil {
		return err
	}
	c.setLocation("/traits/" + name)
	c.setModified(t.Modified)
	return c.WriteStatus(createdStatus(created))
}

// createdStatus returns the status of a PUT that creates a resource if it does not exist.
func createdStatus(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusNoContent
}

func (c *call) deleteTrait() error {
	name := resource.Trait(c.R.PathValue("name"))
	if err := c.server.store.DeleteTrait(c.Context(), name); err != nil {
		return err
	}
	c.server.names.Forget("", name)
	return c.WriteStatus(http.StatusNoContent)
}

func (c *call) sendProviderTraits(generation int, list []store.Trait) error {
	c.setModified(newest(list, traitModified))
	return c.sendJSON(http.StatusOK, api.ProviderTraitsDoc{Generation: generation, Traits: traitNames(list)})
}

func (c *call) listProviderTraits() error {
	all, err := c.server.store.ProviderTraits(c.Context(), c.provider())
	if err != nil {
		return err
	}
	return c.sendProviderTraits(all.Generation, all.Traits)
}

func (c *call) replaceTraits() error {
	var in api.ProviderTraitsDoc
	if err := c.read(api.BodyTraits, &in); err != nil {
		return err
	}
	all, change, err := c.server.store.ReplaceTraits(c.Context(), c.provider(), in.Generation, in.Traits)
	if err != nil {
		return err
	}
	c.applyDelta(change, liveindex.Delta{ID: c.provider(), Before: in.Generation,
		Change: func(r *index.Row) { r.Traits = traitNames(all.Traits) }})
	return c.sendProviderTraits(all.Generation, all.Traits)
}

func (c *call) clearTraits() error {
	change, err := c.server.store.ClearTraits(c.Context(), c.provider())
	if err != nil {
		return err
	}
	c.refresh(change)
	return c.WriteStatus(http.StatusNoContent)
}

package resources

import (
	"net/http"
	"strings"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/server/request"
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

func listTraits(c *request.Call) error {
	q, err := c.Query()
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
	list, err := c.Service.Store.Traits(c.Context(), filter)
	if err != nil {
		return err
	}
	c.SetModified(newest(list, traitModified))
	return c.SendJSON(http.StatusOK, request.Object{"traits": traitNames(list)})
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

func showTrait(c *request.Call) error {
	t, err := c.Service.Store.Trait(c.Context(), resource.Trait(c.R.PathValue("name")))
	if err != nil {
		return err
	}
	c.SetModified(t.Modified)
	return c.WriteStatus(http.StatusNoContent)
}

func putTrait(c *request.Call) error {
	name := c.R.PathValue("name")
	if !resource.IsCustom(name) {
		return fault.New(fault.Invalid, "The trait %q is not valid: "+
			"a custom trait is CUSTOM_ followed by A-Z, 0-9 and _, 255 characters at most", name)
	}
	t, created, err := c.Service.Store.EnsureTrait(c.Context(), resource.Trait(name))
	if err != nil {
		return err
	}
	c.SetLocation("/traits/" + name)
	c.SetModified(t.Modified)
	return c.WriteStatus(createdStatus(created))
}

// createdStatus returns the status of a PUT that creates a resource if it does not exist.
func createdStatus(created bool) int {
	if created {
		return http.StatusCreated
	}
	return http.StatusNoContent
}

func deleteTrait(c *request.Call) error {
	name := resource.Trait(c.R.PathValue("name"))
	if err := c.Service.Store.DeleteTrait(c.Context(), name); err != nil {
		return err
	}
	c.Service.Names.Forget("", name)
	return c.WriteStatus(http.StatusNoContent)
}

func sendProviderTraits(c *request.Call, generation int, list []store.Trait) error {
	c.SetModified(newest(list, traitModified))
	return c.SendJSON(http.StatusOK, api.ProviderTraitsDoc{Generation: generation, Traits: traitNames(list)})
}

func listProviderTraits(c *request.Call) error {
	all, err := c.Service.Store.ProviderTraits(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	return sendProviderTraits(c, all.Generation, all.Traits)
}

func replaceTraits(c *request.Call) error {
	var in api.ProviderTraitsDoc
	if err := c.Read(api.BodyTraits, &in); err != nil {
		return err
	}
	all, change, err := c.Service.Store.ReplaceTraits(c.Context(), c.Provider(), in.Generation, in.Traits)
	if err != nil {
		return err
	}
	applyDelta(c, change, liveindex.Delta{ID: c.Provider(), Before: in.Generation,
		Change: func(r *index.Row) { r.Traits = traitNames(all.Traits) }})
	return sendProviderTraits(c, all.Generation, all.Traits)
}

func clearTraits(c *request.Call) error {
	change, err := c.Service.Store.ClearTraits(c.Context(), c.Provider())
	if err != nil {
		return err
	}
	refresh(c, change)
	return c.WriteStatus(http.StatusNoContent)
}

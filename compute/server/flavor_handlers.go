package server

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// listFlavors is GET /v2.1/flavors.
func (s *server) listFlavors(c *call) error {
	return s.flavors(c, func(f flavor.Flavor) any {
		return struct {
			compute.Ref
			*compute.Described
		}{compute.Ref{ID: f.ID, Name: f.Name, Links: c.links("flavors", f.ID)}, c.flavorDescription(f)}
	})
}

// detailFlavors is GET /v2.1/flavors/detail.
func (s *server) detailFlavors(c *call) error {
	return s.flavors(c, func(f flavor.Flavor) any { return c.flavor(f) })
}

func (s *server) flavors(c *call, view func(flavor.Flavor) any) error {
	q := c.R.URL.Query()
	limit, marker, err := c.readPage(q)
	if err != nil {
		return err
	}
	filter, keep, err := flavorFilter(q, c.Who.IsAdmin())
	if err != nil {
		return err
	}
	filter.Marker = marker
	found, err := collect(limit, func(limit int, last *flavor.Flavor) ([]flavor.Flavor, error) {
		filter.Limit = limit
		if last != nil {
			filter.Marker = last.ID
		}
		return s.Store.Flavors(c.R.Context(), filter)
	}, keep)
	if err != nil {
		return err
	}
	list := make([]any, 0, len(found))
	for _, f := range found {
		list = append(list, view(f))
	}
	body := map[string]any{"flavors": list}
	if len(found) > 0 {
		if next := c.nextLinks(limit, len(found), found[len(found)-1].ID); next != nil {
			body["flavors_links"] = next
		}
	}
	return c.writeJSON(http.StatusOK, body)
}

// flavorFilter reads the query. Users see public flavors only; admins choose with is_public, where None means all.
func flavorFilter(q url.Values, admin bool) (f store.FlavorFilter, keep func(flavor.Flavor) bool, err error) {
	public := true
	if text := q.Get("is_public"); admin && text != "" {
		wanted, known := parseBool(text)
		f.All = !known || !wanted
		public = !known || wanted
		if !known && !strings.EqualFold(text, "none") {
			return f, nil, fault.New(fault.Invalid, "is_public must be true, false or none; it is %q", text)
		}
	}
	for key, into := range map[string]*int{"minDisk": &f.MinDisk, "minRam": &f.MinRAM} {
		if text := q.Get(key); text != "" {
			if *into, err = strconv.Atoi(text); err != nil {
				return f, nil, fault.New(fault.Invalid, "%s must be a whole number; it is %q", key, text)
			}
		}
	}
	return f, func(f flavor.Flavor) bool { return public || !f.Public }, nil
}

// showFlavor is GET /v2.1/flavors/{id}.
func (s *server) showFlavor(c *call) error {
	f, err := s.visibleFlavor(c.R.Context(), c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"flavor": c.flavor(f)})
}

// visibleFlavor reads a flavor. It returns fault.NotFound if the caller may not see it.
func (s *server) visibleFlavor(ctx context.Context, c *call, id string) (flavor.Flavor, error) {
	f, err := s.Store.Flavor(ctx, id)
	if fault.Is(err, fault.NotFound) || err == nil && !f.Public && !c.Who.IsAdmin() {
		return flavor.Flavor{}, fault.New(fault.NotFound, "Flavor %s could not be found.", id)
	}
	return f, err
}

// flavorID matches the ids that the Compute API allows.
var flavorID = regexp.MustCompile(`^[a-zA-Z0-9._-]([a-zA-Z0-9. _-]{0,253}[a-zA-Z0-9._-])?$`)

// createFlavor is POST /v2.1/flavors.
func (s *server) createFlavor(c *call) error {
	o, others, err := c.wrapped("flavor")
	if err != nil {
		return err
	}
	f := flavor.Flavor{ID: s.NewID(), Name: o.nameText("name"), ExtraSpecs: map[string]string{}}
	if id, ok := o.scalar("id", false, "a text or null"); ok && id != "" && id != "auto" {
		f.ID = id
		if !flavorID.MatchString(id) {
			o.invalid("id", "it is %q; letters, digits, spaces inside, and . _ - are allowed", clip(f.ID))
		}
	}
	f.VCPUs = o.number("vcpus", true, 0, 1, resource.MaxAmount)
	f.MemoryMB = o.number("ram", true, 0, 1, resource.MaxAmount)
	f.DiskGB = o.number("disk", true, 0, 0, resource.MaxAmount)
	f.Ephemeral = o.number("OS-FLV-EXT-DATA:ephemeral", false, 0, 0, resource.MaxAmount)
	f.Swap = o.number("swap", false, 0, 0, resource.MaxAmount)
	f.RXTXFactor = o.factor("rxtx_factor")
	f.Public = o.flag("os-flavor-access:is_public", true)
	if c.version.Has(compute.FlavorDescription) {
		f.Description, _ = o.text("description", 0, 65535)
	}
	if err := o.finish(nil); err != nil {
		return err
	}
	if err := refuseOthers("flavor", others); err != nil {
		return err
	}
	if err := s.Store.CreateFlavor(c.R.Context(), f); err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"flavor": c.flavor(f)})
}

// describeFlavor is PUT /v2.1/flavors/{id}, since 2.55.
func (s *server) describeFlavor(c *call) error {
	if !c.version.Has(compute.FlavorDescription) {
		return fault.New(fault.NotFound, "a flavor can be changed since version %s, and this request has version %s",
			compute.FlavorDescription, c.version)
	}
	o, others, err := c.wrapped("flavor")
	if err != nil {
		return err
	}
	if _, ok := o.keys["description"]; !ok {
		o.invalid("description", "it is missing; give a text or null")
	}
	text, _ := o.text("description", 0, 65535)
	if err := o.finish(nil); err != nil {
		return err
	}
	if err := refuseOthers("flavor", others); err != nil {
		return err
	}
	id := c.R.PathValue("id")
	if err := s.Store.DescribeFlavor(c.R.Context(), id, text); err != nil {
		return err
	}
	return s.showFlavor(c)
}

// deleteFlavor is DELETE /v2.1/flavors/{id}.
func (s *server) deleteFlavor(c *call) error {
	if err := s.Store.DeleteFlavor(c.R.Context(), c.R.PathValue("id")); err != nil {
		return err
	}
	return c.writeStatus(http.StatusAccepted)
}

// flavor returns the view of a flavor at the version of the call.
func (c *call) flavor(f flavor.Flavor) compute.Flavor {
	view := compute.Flavor{ID: f.ID, Name: f.Name, VCPUs: f.VCPUs, RAM: f.MemoryMB, Disk: f.DiskGB, Ephemeral: f.Ephemeral,
		Swap: compute.Swap(f.Swap), RXTX: f.RXTXFactor, Public: f.Public, Disabled: f.Disabled,
		Links: c.links("flavors", f.ID), Described: c.flavorDescription(f)}
	if c.version.Has(compute.ExtraSpecsInFlavor) {
		view.ExtraSpecs = notNil(f.ExtraSpecs)
	}
	return view
}

// flavorDescription returns the description that a view embeds; nil before 2.55.
func (c *call) flavorDescription(f flavor.Flavor) *compute.Described {
	if !c.version.Has(compute.FlavorDescription) {
		return nil
	}
	return &compute.Described{Description: orNull(f.Description)}
}

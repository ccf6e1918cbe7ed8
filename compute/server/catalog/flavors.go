package catalog

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// flavorRoutes returns the paths of flavors. They may be read without a policy rule, as in Nova.
func flavorRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/flavors": {
			http.MethodGet:  request.Open(s.listFlavors),
			http.MethodPost: request.Guarded(policies.CreateFlavor, s.createFlavor),
		},
		"/v2.1/flavors/detail": {http.MethodGet: request.Open(s.detailFlavors)},
		"/v2.1/flavors/{id}": {
			http.MethodGet:    request.Open(s.showFlavor),
			http.MethodPut:    request.Guarded(policies.UpdateFlavor, s.describeFlavor),
			http.MethodDelete: request.Guarded(policies.DeleteFlavor, s.deleteFlavor),
		},
	}
}

func (s *Handlers) listFlavors(c *request.Call) error {
	return s.flavors(c, func(f flavor.Flavor) any {
		return struct {
			compute.Ref
			*compute.Described
		}{compute.Ref{ID: f.ID, Name: f.Name, Links: c.Links("flavors", f.ID)}, flavorDescription(c, f)}
	})
}

func (s *Handlers) detailFlavors(c *request.Call) error {
	return s.flavors(c, func(f flavor.Flavor) any { return flavorView(c, f) })
}

func (s *Handlers) flavors(c *request.Call, view func(flavor.Flavor) any) error {
	q := c.R.URL.Query()
	limit, marker, err := c.ReadPage(q)
	if err != nil {
		return err
	}
	filter, keep, err := flavorFilter(c, q)
	if err != nil {
		return err
	}
	order, err := flavorOrder(q)
	if err != nil {
		return err
	}
	found, err := s.flavorPage(c.R.Context(), filter, keep, order, marker, limit)
	if err != nil {
		return err
	}
	list := make([]any, 0, len(found))
	for _, f := range found {
		list = append(list, view(f))
	}
	body := map[string]any{"flavors": list}
	if len(found) > 0 {
		if next := c.NextLinks(limit, len(found), found[len(found)-1].ID); next != nil {
			body["flavors_links"] = next
		}
	}
	return c.WriteJSON(http.StatusOK, body)
}

// flavorPage returns the flavors that follow the marker, at most limit. order is nil for the order by id.
func (s *Handlers) flavorPage(ctx context.Context, filter store.FlavorFilter, keep func(flavor.Flavor) bool,
	order func(a, b flavor.Flavor) int, marker string, limit int) ([]flavor.Flavor, error) {
	wanted := limit
	if order == nil {
		filter.Marker = marker
	} else {
		wanted = math.MaxInt
	}
	found, err := request.Collect(wanted, func(limit int, last *flavor.Flavor) ([]flavor.Flavor, error) {
		filter.Limit = limit
		if last != nil {
			filter.Marker = last.ID
		}
		return s.Flavors.Flavors(ctx, filter)
	}, keep)
	if err != nil || order == nil {
		return found, err
	}
	slices.SortFunc(found, order)
	if marker != "" {
		at := slices.IndexFunc(found, func(f flavor.Flavor) bool { return f.ID == marker })
		if at < 0 {
			return nil, fault.New(fault.Invalid, "the marker %q is not a flavor", edge.Clip(marker))
		}
		found = found[at+1:]
	}
	return found[:min(limit, len(found))], nil
}

// flavorFilter reads the query. Callers see public flavors and those whose access list has their project; admins choose
// with is_public, where None means all.
func flavorFilter(c *request.Call, q url.Values) (f store.FlavorFilter, keep func(flavor.Flavor) bool, err error) {
	f.Project = c.Who.Project
	public := true
	if text := q.Get("is_public"); c.Who.IsAdmin() && text != "" {
		wanted, known := request.Style.Bool(text)
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
	name := ""
	if c.Has(compute.FlavorName) {
		name = q.Get("name")
	}
	return f, func(f flavor.Flavor) bool { return (public || !f.Public) && (name == "" || f.Name == name) }, nil
}

func (s *Handlers) showFlavor(c *request.Call) error {
	f, err := s.VisibleFlavor(c.R.Context(), c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"flavor": flavorView(c, f)})
}

// VisibleFlavor reads a flavor. It returns fault.NotFound if the caller may not see it.
func (s *Handlers) VisibleFlavor(ctx context.Context, c *request.Call, id string) (flavor.Flavor, error) {
	f, err := s.Flavors.Flavor(ctx, id)
	visible := false
	if err == nil {
		visible, err = mayUse(s.Flavors, c, f)
	}
	if fault.Is(err, fault.NotFound) || err == nil && !visible {
		return flavor.Flavor{}, fault.New(fault.NotFound, "Flavor %s could not be found.", id)
	}
	return f, err
}

// flavorID matches the ids that the Compute API allows.
var flavorID = nameForm{regexp.MustCompile(`^[a-zA-Z0-9._-]([a-zA-Z0-9. _-]*[a-zA-Z0-9._-])?$`)}

func (s *Handlers) createFlavor(c *request.Call) error {
	o, others, err := c.Object("flavor")
	if err != nil {
		return err
	}
	f := flavor.Flavor{ID: s.NewID(), Name: request.NameText(o, "name"), ExtraSpecs: map[string]string{}}
	o.Require("vcpus", "ram", "disk")
	id := ""
	if o.Scalar("id", &id, "a text or null"); id != "" && id != "auto" {
		f.ID = id
		if !flavorID.MatchString(id) {
			o.Invalid("id", "it is %q; letters, digits, spaces inside, and . _ - are allowed", edge.Clip(f.ID))
		}
	}
	o.Number("vcpus", &f.VCPUs, 1, resource.MaxAmount)
	o.Number("ram", &f.MemoryMB, 1, resource.MaxAmount)
	o.Number("disk", &f.DiskGB, 0, resource.MaxAmount)
	o.Number("OS-FLV-EXT-DATA:ephemeral", &f.Ephemeral, 0, resource.MaxAmount)
	o.Number("swap", &f.Swap, 0, resource.MaxAmount)
	f.RXTXFactor = 1
	if !c.Has(compute.FlavorName) {
		f.RXTXFactor = request.Factor(o, "rxtx_factor")
	}
	f.Public = true
	o.Flag("os-flavor-access:is_public", &f.Public)
	if c.Has(compute.FlavorDescription) {
		o.Text("description", &f.Description, 65535)
	}
	if err := o.Finish(); err != nil {
		return err
	}
	if err := c.RefuseOthers("flavor", others); err != nil {
		return err
	}
	if err := s.Flavors.CreateFlavor(c.R.Context(), f); err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"flavor": flavorView(c, f)})
}

// describeFlavor is PUT /v2.1/flavors/{id}, since 2.55.
func (s *Handlers) describeFlavor(c *request.Call) error {
	if !c.Has(compute.FlavorDescription) {
		return fault.New(fault.NotFound, "a flavor can be changed since version %s, and this request has version %s",
			compute.FlavorDescription, c.Microversion)
	}
	o, others, err := c.Object("flavor")
	if err != nil {
		return err
	}
	if _, ok := o.Keys["description"]; !ok {
		o.Invalid("description", "it is missing; give a text or null")
	}
	text := ""
	o.Text("description", &text, 65535)
	if err := o.Finish(); err != nil {
		return err
	}
	if err := c.RefuseOthers("flavor", others); err != nil {
		return err
	}
	id := c.R.PathValue("id")
	if err := s.Flavors.DescribeFlavor(c.R.Context(), id, text); err != nil {
		return err
	}
	return s.showFlavor(c)
}

func (s *Handlers) deleteFlavor(c *request.Call) error {
	if err := s.Flavors.DeleteFlavor(c.R.Context(), c.R.PathValue("id")); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusAccepted)
}

// flavorView returns the view of a flavor at the version of the call.
func flavorView(c *request.Call, f flavor.Flavor) compute.Flavor {
	view := compute.Flavor{ID: f.ID, Name: f.Name, VCPUs: f.VCPUs, RAM: f.MemoryMB, Disk: f.DiskGB,
		Ephemeral: f.Ephemeral, Swap: compute.Swap(f.Swap), Public: f.Public,
		Links: c.Links("flavors", f.ID), Described: flavorDescription(c, f)}
	if c.Has(compute.ExtraSpecsInFlavor) {
		view.ExtraSpecs = request.NotNil(f.ExtraSpecs)
	}
	if !c.Has(compute.FlavorName) {
		view.RXTX, view.Disabled = &f.RXTXFactor, &f.Disabled
	}
	if f.Swap == 0 && !c.Has(compute.StrictRequests) {
		view.Swap = compute.NoSwap
	}
	return view
}

// flavorDescription returns the description that a view embeds; nil before 2.55.
func flavorDescription(c *request.Call, f flavor.Flavor) *compute.Described {
	if !c.Has(compute.FlavorDescription) {
		return nil
	}
	return &compute.Described{Description: request.OrNull(f.Description)}
}

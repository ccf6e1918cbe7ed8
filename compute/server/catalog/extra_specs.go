package catalog

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// extraSpecRoutes returns the paths of extra specs.
func extraSpecRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/flavors/{id}/os-extra_specs": {
			http.MethodGet:  request.Guarded(policies.ListExtraSpecs, s.listExtraSpecs),
			http.MethodPost: request.Guarded(policies.CreateExtraSpecs, s.createExtraSpecs),
		},
		"/v2.1/flavors/{id}/os-extra_specs/{key}": {
			http.MethodGet:    request.Guarded(policies.ShowExtraSpec, s.showExtraSpec),
			http.MethodPut:    request.Guarded(policies.UpdateExtraSpec, s.putExtraSpec),
			http.MethodDelete: request.Guarded(policies.DeleteExtraSpec, s.deleteExtraSpec),
		},
	}
}

func (s *Handlers) listExtraSpecs(c *request.Call) error {
	f, err := s.VisibleFlavor(c.R.Context(), c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"extra_specs": request.NotNil(f.ExtraSpecs)})
}

// createExtraSpecs is POST /v2.1/flavors/{id}/os-extra_specs: it adds and overwrites.
func (s *Handlers) createExtraSpecs(c *request.Call) error {
	o, others, err := c.Object("extra_specs")
	if err != nil {
		return err
	}
	if err := c.RefuseOthers("extra_specs", others); err != nil {
		return err
	}
	return s.setExtraSpecs(c, o, func(specs map[string]string) any { return map[string]any{"extra_specs": specs} })
}

// putExtraSpec is PUT /v2.1/flavors/{id}/os-extra_specs/{key}; its body is an object with this key alone.
func (s *Handlers) putExtraSpec(c *request.Call) error {
	o := c.NewObject("extra_specs", nil)
	if err := c.ReadJSON(request.MaxBody, &o.Keys); err != nil {
		return err
	}
	key := c.R.PathValue("key")
	if _, ok := o.Keys[key]; !ok || len(o.Keys) != 1 {
		return fault.New(fault.Invalid, "the body must be an object with the one key %q, that of the path", key)
	}
	return s.setExtraSpecs(c, o, func(specs map[string]string) any { return specs })
}

// SpecKey matches the keys that the Compute API allows.
var SpecKey = nameForm{regexp.MustCompile(`^[a-zA-Z0-9_:. -]+$`)}

// nameForm is a form of texts with at most 255 characters, which are ASCII. The expression does not have the limit,
// because an expression with hundreds of repetitions takes more than a millisecond of each start of berth.
type nameForm struct{ form *regexp.Regexp }

// MatchString reports whether a text has the form and is not too long.
func (f nameForm) MatchString(text string) bool { return len(text) <= 255 && f.form.MatchString(text) }

func (s *Handlers) setExtraSpecs(c *request.Call, o *edge.Object, body func(map[string]string) any) error {
	specs := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(o.Keys)) {
		if !SpecKey.MatchString(key) {
			o.Invalid(edge.Clip(key), "a key has 1 to 255 letters, digits, spaces and _ : . -")
		}
		text := ""
		o.Require(key)
		if o.Scalar(key, &text, "a text or a number"); utf8.RuneCountInString(text) > 255 {
			o.Invalid(key, "it has %d characters; at most 255 are allowed", utf8.RuneCountInString(text))
		}
		specs[key] = text
	}
	if o.Err() != nil {
		return o.Err()
	}
	f, err := s.VisibleFlavor(c.R.Context(), c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	f.ExtraSpecs = maps.Clone(request.NotNil(f.ExtraSpecs))
	maps.Copy(f.ExtraSpecs, specs)
	if c.Has(compute.ExtraSpecsChecked) { // before, a server of the flavor is refused
		if err := s.checkFlavor(f); err != nil {
			return err
		}
	}
	if err := s.Flavors.SetExtraSpecs(c.R.Context(), f.ID, specs); err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, body(specs))
}

// checkFlavor returns a fault if no server can be created from a flavor. A flavor is valid if an image can complete it,
// by requesting dedicated CPUs.
func (s *Handlers) checkFlavor(f flavor.Flavor) error {
	_, wrong := s.RequestAmounts(f, flavor.Image{})
	if wrong == nil || s.Images == nil {
		return wrong
	}
	for _, policy := range []string{"dedicated", "mixed"} {
		image := flavor.Image{Properties: map[string]string{"hw_cpu_policy": policy}}
		if _, err := s.RequestAmounts(f, image); err == nil {
			return nil
		}
	}
	return wrong
}

// RequestAmounts returns what a server with this flavor and image requests of each resource class, or a fault if its
// request to Placement cannot be built. It names the extra spec or image property that is not valid. The conductor
// builds the request.
func (s *Handlers) RequestAmounts(f flavor.Flavor, i flavor.Image) (resource.Amounts, error) {
	ask, _, err := flavor.Ask(f, i, s.Aliases, flavor.Options{PCIInPlacement: s.PCIInPlacement}, s.NewID)
	return lifecycle.GroupAmounts(ask.Groups), err
}

func (s *Handlers) showExtraSpec(c *request.Call) error {
	f, err := s.VisibleFlavor(c.R.Context(), c, c.R.PathValue("id"))
	if err != nil {
		return err
	}
	key := c.R.PathValue("key")
	value, ok := f.ExtraSpecs[key]
	if !ok {
		return fault.New(fault.NotFound, "Flavor %s has no extra specs with key %s.", f.ID, key)
	}
	return c.WriteJSON(http.StatusOK, map[string]string{key: value})
}

func (s *Handlers) deleteExtraSpec(c *request.Call) error {
	if err := s.Flavors.DeleteExtraSpec(c.R.Context(), c.R.PathValue("id"), c.R.PathValue("key")); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusOK)
}

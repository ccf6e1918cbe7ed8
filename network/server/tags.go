package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/store"
)

// setTags replaces the tags of an object of one kind.
type setTags func(c *call, id string, change func([]string) ([]string, error)) ([]string, error)

// tagRoutes returns the paths of tags.
func (s handlers) tagRoutes() []edge.Route[*call] {
	var all []edge.Route[*call]
	for _, t := range []struct {
		path string
		col  collection
		set  setTags
	}{{"networks", s.networks(), tagsOf[store.Network](s)}, {"subnets", s.subnets(), tagsOf[store.Subnet](s)},
		{"ports", s.ports(), tagsOf[store.Port](s)}, {"policies", s.qosPolicies(), tagsOf[store.Policy](s)},
		{"security-groups", groups{s}.collection(), tagsOf[store.SecurityGroup](s)},
		{"subnetpools", pools{s}.collection(), tagsOf[store.SubnetPool](s)}} {
		h := tags{t.col.named(), "update_" + strings.ReplaceAll(t.path, "-", "_") + "_tags", t.set}
		path := "/v2.0/" + t.path + "/{id}/tags"
		all = append(all, edge.Route[*call]{Path: path, Methods: methods{http.MethodGet: {Handle: h.list},
			http.MethodPut: {Handle: h.replace}, http.MethodDelete: {Handle: h.clear}}},
			edge.Route[*call]{Path: path + "/{tag}", Methods: methods{http.MethodGet: {Handle: h.show},
				http.MethodPut: {Handle: h.add}, http.MethodDelete: {Handle: h.remove}}})
	}
	return all
}

func tagsOf[T any, P store.Pointer[T]](s handlers) setTags {
	return func(c *call, id string, change func([]string) ([]string, error)) ([]string, error) {
		return operations.SetTags[T, P](c.R.Context(), s.ops, id, change)
	}
}

// tags has the handlers of the tags of one collection.
type tags struct {
	col  collection
	rule string
	set  setTags
}

// change changes the tags of the object in the path. More than maxTags are refused, unless there were more before.
func (t tags) change(c *call, change func([]string) ([]string, error)) ([]string, error) {
	d, err := t.col.read(c, c.R.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if err := c.Authorize(t.rule, d.target); err != nil {
		return nil, err
	}
	return t.set(c, c.R.PathValue("id"), func(had []string) ([]string, error) {
		tags, err := change(had)
		if err == nil && len(tags) > max(maxTags, len(had)) {
			err = fault.New(fault.Invalid, "Invalid input for tags. Reason: an object has at most %d tags, and these "+
				"are %d.", maxTags, len(tags))
		}
		return tags, err
	})
}

// maxTags is how many tags an object may have: lists show all tags of all objects.
const maxTags = 128

// checkTag refuses a tag that is empty or too long.
func checkTag(tag string) error {
	if len(tag) > 255 || tag == "" {
		return fault.New(fault.Invalid, "Invalid input for tags. Reason: '%s' must have 1 to 255 bytes.",
			edge.Clip(tag))
	}
	return nil
}

func (t tags) present(c *call) ([]string, error) {
	d, err := t.col.read(c, c.R.PathValue("id"))
	list, _ := d.view["tags"].([]string)
	return list, err
}

func (t tags) list(c *call) error {
	list, err := t.present(c)
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, map[string]any{"tags": notNil(list)})
	}
	return err
}

func (t tags) show(c *call) error {
	list, err := t.present(c)
	if err == nil && !slices.Contains(list, c.R.PathValue("tag")) {
		err = unknownTag(c)
	}
	return c.Done(http.StatusNoContent, err)
}

func unknownTag(c *call) error {
	return fault.New(fault.NotFound, "Tag %s could not be found.", c.R.PathValue("tag")).WithCode("TagNotFound")
}

func (t tags) replace(c *call) error {
	var body struct{ Tags []string }
	if err := c.ReadJSON(maxBody, &body); err != nil {
		return err
	}
	for _, tag := range body.Tags {
		if err := checkTag(tag); err != nil {
			return err
		}
	}
	slices.Sort(body.Tags)
	list, err := t.change(c, func([]string) ([]string, error) { return slices.Compact(body.Tags), nil })
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, map[string]any{"tags": notNil(list)})
	}
	return err
}

func (t tags) clear(c *call) error {
	_, err := t.change(c, func([]string) ([]string, error) { return nil, nil })
	return c.Done(http.StatusNoContent, err)
}

func (t tags) add(c *call) error {
	err := checkTag(c.R.PathValue("tag"))
	if err != nil {
		return err
	}
	_, err = t.change(c, func(list []string) ([]string, error) {
		list = append(list, c.R.PathValue("tag"))
		slices.Sort(list)
		return slices.Compact(list), nil
	})
	return c.Done(http.StatusCreated, err)
}

func (t tags) remove(c *call) error {
	_, err := t.change(c, func(list []string) ([]string, error) {
		at := slices.Index(list, c.R.PathValue("tag"))
		if at < 0 {
			return nil, unknownTag(c)
		}
		return slices.Delete(list, at, at+1), nil
	})
	return c.Done(http.StatusNoContent, err)
}

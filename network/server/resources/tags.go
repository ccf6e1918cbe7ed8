package resources

import (
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/operations"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/network/store"
)

// setTags replaces the tags of an object of one kind.
type setTags func(c *request.Call, id string, change func([]string) ([]string, error)) ([]string, error)

// tagRoutes returns the paths of tags.
func (s handlers) tagRoutes() []edge.Route[*request.Call] {
	var all []edge.Route[*request.Call]
	for _, t := range []struct {
		path string
		col  request.Collection
		set  setTags
	}{{"networks", s.networks(), tagsOf[store.Network](s)}, {"subnets", s.subnets(), tagsOf[store.Subnet](s)},
		{"ports", s.ports(), tagsOf[store.Port](s)}, {"policies", s.qosPolicies(), tagsOf[store.Policy](s)},
		{"security-groups", groups{s}.collection(), tagsOf[store.SecurityGroup](s)},
		{"subnetpools", pools{s}.collection(), tagsOf[store.SubnetPool](s)}} {
		h := tags{t.col.Named(), "update_" + strings.ReplaceAll(t.path, "-", "_") + "_tags", t.set}
		path := "/v2.0/" + t.path + "/{id}/tags"
		all = append(all, edge.Route[*request.Call]{Path: path,
			Methods: request.Methods{http.MethodGet: {Handle: h.list},
				http.MethodPut: {Handle: h.replace}, http.MethodDelete: {Handle: h.clear}}},
			edge.Route[*request.Call]{Path: path + "/{tag}", Methods: request.Methods{http.MethodGet: {Handle: h.show},
				http.MethodPut: {Handle: h.add}, http.MethodDelete: {Handle: h.remove}}})
	}
	return all
}

func tagsOf[T any, P store.Pointer[T]](s handlers) setTags {
	return func(c *request.Call, id string, change func([]string) ([]string, error)) ([]string, error) {
		return operations.SetTags[T, P](c.R.Context(), s.Ops, id, change)
	}
}

// tags has the handlers of the tags of one collection.
type tags struct {
	col  request.Collection
	rule string
	set  setTags
}

// change changes the tags of the object in the path. More than maxTags are refused, unless there were more before.
func (t tags) change(c *request.Call, change func([]string) ([]string, error)) ([]string, error) {
	d, err := t.col.Read(c, c.R.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if err := c.Authorize(t.rule, d.Target); err != nil {
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

func (t tags) present(c *request.Call) ([]string, error) {
	d, err := t.col.Read(c, c.R.PathValue("id"))
	list, _ := d.View["tags"].([]string)
	return list, err
}

func (t tags) list(c *request.Call) error {
	list, err := t.present(c)
	if err == nil {
		rest.WriteJSON(c.W, http.StatusOK, map[string]any{"tags": request.NotNil(list)})
	}
	return err
}

func (t tags) show(c *request.Call) error {
	list, err := t.present(c)
	if err == nil && !slices.Contains(list, c.R.PathValue("tag")) {
		err = unknownTag(c)
	}
	return c.Done(http.StatusNoContent, err)
}

func unknownTag(c *request.Call) error {
	return fault.New(fault.NotFound, "Tag %s could not be found.", c.R.PathValue("tag")).WithCode("TagNotFound")
}

func (t tags) replace(c *request.Call) error {
	var body struct{ Tags []string }
	if err := c.ReadJSON(request.MaxBody, &body); err != nil {
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
		rest.WriteJSON(c.W, http.StatusOK, map[string]any{"tags": request.NotNil(list)})
	}
	return err
}

func (t tags) clear(c *request.Call) error {
	_, err := t.change(c, func([]string) ([]string, error) { return nil, nil })
	return c.Done(http.StatusNoContent, err)
}

func (t tags) add(c *request.Call) error {
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

func (t tags) remove(c *request.Call) error {
	_, err := t.change(c, func(list []string) ([]string, error) {
		at := slices.Index(list, c.R.PathValue("tag"))
		if at < 0 {
			return nil, unknownTag(c)
		}
		return slices.Delete(list, at, at+1), nil
	})
	return c.Done(http.StatusNoContent, err)
}

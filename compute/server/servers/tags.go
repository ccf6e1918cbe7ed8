package servers

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// tagRoutes returns the paths of the tags of a server (2.26).
func tagRoutes(s *Handlers) request.Routes {
	d := details{s.Store, s.Catalog, s.Now}
	tagged := func(rule string, handle func(*request.Call, lifecycle.Server) error) request.Method {
		return request.Since(compute.Tags, s.OfServer(rule, handle))
	}
	return request.Routes{
		"/v2.1/servers/{id}/tags": {
			http.MethodGet:    tagged(policies.ListTags, d.listTags),
			http.MethodPut:    tagged(policies.ReplaceTags, d.replaceTags),
			http.MethodDelete: tagged(policies.DeleteTags, d.deleteTags),
		},
		"/v2.1/servers/{id}/tags/{tag}": {
			http.MethodGet:    tagged(policies.ShowTag, d.showTag),
			http.MethodPut:    tagged(policies.UpdateTag, d.putTag),
			http.MethodDelete: tagged(policies.DeleteTag, d.deleteTag),
		},
	}
}

func (s details) listTags(c *request.Call, found lifecycle.Server) error {
	return c.WriteJSON(http.StatusOK, map[string]any{"tags": append([]string{}, found.Tags...)})
}

// showTag is GET /v2.1/servers/{id}/tags/{tag}: it has no body. Nova's rule is os_compute_api:os-server-tags:show.
func (s details) showTag(c *request.Call, found lifecycle.Server) error {
	if !slices.Contains(found.Tags, c.R.PathValue("tag")) {
		return noTag(found.ID, c.R.PathValue("tag"))
	}
	return c.WriteStatus(http.StatusNoContent)
}

func noTag(id, tag string) error {
	return fault.New(fault.NotFound, "Server %s has no tag '%s'", id, edge.Clip(tag))
}

func (s details) replaceTags(c *request.Call, found lifecycle.Server) error {
	o := c.NewObject("body", nil)
	if err := c.ReadJSON(request.MaxBody, &o.Keys); err != nil {
		return err
	}
	if o.Keys["tags"] == nil {
		o.Invalid("tags", "it is missing; give a list of texts")
	}
	tags := readTags(o)
	if err := o.Finish(); err != nil {
		return err
	}
	found, err := s.changeTags(c, found.ID, "update tags", func(d *lifecycle.Details) error {
		d.Tags = tags
		return nil
	})
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"tags": append([]string{}, found.Tags...)})
}

// changeTags changes the tags of a server whose guest is in order.
func (s details) changeTags(c *request.Call, id, what string,
	change func(*lifecycle.Details) error) (lifecycle.Server, error) {
	return s.changeDetails(c.R.Context(), id, func(now lifecycle.Server, d *lifecycle.Details) error {
		if why := now.RefuseChange(what, false); why != "" {
			return fault.New(fault.Conflict, "%s", why)
		}
		return change(d)
	})
}

func (s details) putTag(c *request.Call, found lifecycle.Server) error {
	tag := c.R.PathValue("tag")
	if !request.TagText.MatchString(tag) {
		return fault.New(fault.Invalid, "%q is not a valid tag: a tag has 1 to 60 characters, without comma and slash",
			edge.Clip(tag))
	}
	code := http.StatusCreated
	_, err := s.changeTags(c, found.ID, "update tag", func(d *lifecycle.Details) error {
		at, there := slices.BinarySearch(d.Tags, tag)
		switch {
		case there:
			code = http.StatusNoContent
			return nil
		case len(d.Tags) >= request.MaxTags:
			return fault.New(fault.Invalid, "The number of tags exceeded the per-server limit %d", request.MaxTags)
		}
		code = http.StatusCreated
		d.Tags = slices.Insert(slices.Clone(d.Tags), at, tag)
		return nil
	})
	if err != nil {
		return err
	}
	if code == http.StatusCreated {
		c.W.Header().Set("Location", c.Links("servers", found.ID)[0].HRef+"/tags/"+url.PathEscape(tag))
	}
	return c.WriteStatus(code)
}

func (s details) deleteTags(c *request.Call, found lifecycle.Server) error {
	_, err := s.changeTags(c, found.ID, "delete tags", func(d *lifecycle.Details) error {
		d.Tags = nil
		return nil
	})
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}

func (s details) deleteTag(c *request.Call, found lifecycle.Server) error {
	tag := c.R.PathValue("tag")
	_, err := s.changeTags(c, found.ID, "delete tag", func(d *lifecycle.Details) error {
		at, there := slices.BinarySearch(d.Tags, tag)
		if !there {
			return noTag(found.ID, tag)
		}
		d.Tags = slices.Delete(slices.Clone(d.Tags), at, at+1)
		return nil
	})
	if err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}

func readTags(o *edge.Object) []string {
	var tags []string
	o.Decode("tags", &tags, "a list of texts")
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if len(tags) > request.MaxTags {
		o.Invalid("tags", "there are %d; at most %d are allowed", len(tags), request.MaxTags)
	}
	for _, tag := range tags {
		if !request.TagText.MatchString(tag) {
			o.Invalid("tags", "%q is not a valid tag: a tag has 1 to 60 characters, without comma and slash",
				edge.Clip(tag))
		}
	}
	return tags
}

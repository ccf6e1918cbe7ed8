package server

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// taggedServer reads the server of a path with tags (2.26).
func (s *server) taggedServer(c *call) (lifecycle.Server, error) {
	if !c.version.Has(compute.Tags) {
		return lifecycle.Server{}, unknownPath(c)
	}
	return s.visibleServer(c, false)
}

// listTags is GET /v2.1/servers/{id}/tags. Nova's rule is os_compute_api:os-server-tags:index.
func (s *server) listTags(c *call) error {
	found, err := s.taggedServer(c)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"tags": append([]string{}, found.Tags...)})
}

// showTag is GET /v2.1/servers/{id}/tags/{tag}: it has no body. Nova's rule is os_compute_api:os-server-tags:show.
func (s *server) showTag(c *call) error {
	found, err := s.taggedServer(c)
	if err != nil {
		return err
	}
	if !slices.Contains(found.Tags, c.R.PathValue("tag")) {
		return noTag(found.ID, c.R.PathValue("tag"))
	}
	return c.writeStatus(http.StatusNoContent)
}

func noTag(id, tag string) error {
	return fault.New(fault.NotFound, "Server %s has no tag '%s'", id, clip(tag))
}

// replaceTags is PUT /v2.1/servers/{id}/tags. Nova's rule is os_compute_api:os-server-tags:update_all.
func (s *server) replaceTags(c *call) error {
	found, err := s.taggedServer(c)
	if err != nil {
		return err
	}
	o := &object{name: "body"}
	if err := c.read(maxBody, &o.keys); err != nil {
		return err
	}
	if o.keys["tags"] == nil {
		o.invalid("tags", "it is missing; give a list of texts")
	}
	tags := o.tags()
	if err := o.finish(nil); err != nil {
		return err
	}
	found, err = s.changeTags(c, found.ID, "update tags", func(d *lifecycle.Details) error {
		d.Tags = tags
		return nil
	})
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"tags": append([]string{}, found.Tags...)})
}

// changeTags changes the tags of a server whose guest is in order.
func (s *server) changeTags(c *call, id, what string,
	change func(*lifecycle.Details) error) (lifecycle.Server, error) {
	return s.changeDetails(c.R.Context(), id, func(now lifecycle.Server, d *lifecycle.Details) error {
		if why := now.RefuseChange(what, false); why != "" {
			return fault.New(fault.Conflict, "%s", why)
		}
		return change(d)
	})
}

// putTag is PUT /v2.1/servers/{id}/tags/{tag}. Nova's rule is os_compute_api:os-server-tags:update.
func (s *server) putTag(c *call) error {
	found, err := s.taggedServer(c)
	if err != nil {
		return err
	}
	tag := c.R.PathValue("tag")
	if !tagText.MatchString(tag) {
		return fault.New(fault.Invalid, "%q is not a valid tag: a tag has 1 to 60 characters, without comma and slash",
			clip(tag))
	}
	code := http.StatusCreated
	_, err = s.changeTags(c, found.ID, "update tag", func(d *lifecycle.Details) error {
		at, there := slices.BinarySearch(d.Tags, tag)
		switch {
		case there:
			code = http.StatusNoContent
			return nil
		case len(d.Tags) >= maxTags:
			return fault.New(fault.Invalid, "The number of tags exceeded the per-server limit %d", maxTags)
		}
		code = http.StatusCreated
		d.Tags = slices.Insert(slices.Clone(d.Tags), at, tag)
		return nil
	})
	if err != nil {
		return err
	}
	if code == http.StatusCreated {
		c.W.Header().Set("Location", c.links("servers", found.ID)[0].HRef+"/tags/"+url.PathEscape(tag))
	}
	return c.writeStatus(code)
}

// deleteTags is DELETE /v2.1/servers/{id}/tags. Nova's rule is os_compute_api:os-server-tags:delete_all.
func (s *server) deleteTags(c *call) error {
	found, err := s.taggedServer(c)
	if err != nil {
		return err
	}
	_, err = s.changeTags(c, found.ID, "delete tags", func(d *lifecycle.Details) error {
		d.Tags = nil
		return nil
	})
	if err != nil {
		return err
	}
	return c.writeStatus(http.StatusNoContent)
}

// deleteTag is DELETE /v2.1/servers/{id}/tags/{tag}. Nova's rule is os_compute_api:os-server-tags:delete.
func (s *server) deleteTag(c *call) error {
	found, err := s.taggedServer(c)
	if err != nil {
		return err
	}
	tag := c.R.PathValue("tag")
	_, err = s.changeTags(c, found.ID, "delete tag", func(d *lifecycle.Details) error {
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
	return c.writeStatus(http.StatusNoContent)
}

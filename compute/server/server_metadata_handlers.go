package server

import (
	"maps"
	"net/http"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// listMetadata is GET /v2.1/servers/{id}/metadata. Nova's rule is os_compute_api:server-metadata:index.
func (s *server) listMetadata(c *call) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"metadata": notNil(found.Metadata)})
}

// showMetadata is GET /v2.1/servers/{id}/metadata/{key}. Nova's rule is os_compute_api:server-metadata:show.
func (s *server) showMetadata(c *call) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	key := c.R.PathValue("key")
	value, ok := found.Metadata[key]
	if !ok {
		return fault.New(fault.NotFound, "Metadata item was not found")
	}
	return c.writeJSON(http.StatusOK, map[string]any{"meta": map[string]string{key: value}})
}

// addMetadata is POST /v2.1/servers/{id}/metadata: it adds and overwrites. Nova's rule is
// os_compute_api:server-metadata:create.
func (s *server) addMetadata(c *call) error {
	return s.setMetadata(c, "metadata", func(d *lifecycle.Details, given map[string]string) {
		d.Metadata = maps.Clone(notNil(d.Metadata))
		maps.Copy(d.Metadata, given)
	})
}

// replaceMetadata is PUT /v2.1/servers/{id}/metadata. Nova's rule is os_compute_api:server-metadata:update_all.
func (s *server) replaceMetadata(c *call) error {
	return s.setMetadata(c, "metadata", func(d *lifecycle.Details, given map[string]string) { d.Metadata = given })
}

// putMetadata is PUT /v2.1/servers/{id}/metadata/{key}; its body has this key alone. Nova's rule is
// os_compute_api:server-metadata:update.
func (s *server) putMetadata(c *call) error {
	return s.setMetadata(c, "meta", func(d *lifecycle.Details, given map[string]string) {
		d.Metadata = maps.Clone(notNil(d.Metadata))
		maps.Copy(d.Metadata, given)
	})
}

// setMetadata reads an object of texts under a key of the body, applies it to the server, and responds with the result.
func (s *server) setMetadata(c *call, under string, apply func(*lifecycle.Details, map[string]string)) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	given, err := c.readMetadata(under)
	if err != nil {
		return err
	}
	key := c.R.PathValue("key")
	if _, ok := given[key]; under == "meta" && (!ok || len(given) != 1) {
		return fault.New(fault.Invalid, "meta must have the one key %q, that of the path", clip(key))
	}
	found, err = s.changeDetails(c.R.Context(), found.ID, func(now lifecycle.Server, d *lifecycle.Details) error {
		if why := now.RefuseChange("update instance metadata", true); why != "" {
			return fault.New(fault.Conflict, "%s", why)
		}
		if apply(d, given); len(d.Metadata) > maxMetadata {
			return fault.New(fault.Forbidden, "Maximum number of metadata items exceeds %d", maxMetadata)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if under == "meta" {
		return c.writeJSON(http.StatusOK, map[string]any{"meta": given})
	}
	return c.writeJSON(http.StatusOK, map[string]any{"metadata": notNil(found.Metadata)})
}

// readMetadata reads a body that is an object with one key, whose value is an object of texts.
func (c *call) readMetadata(under string) (map[string]string, error) {
	o, others, err := c.wrapped(under)
	if err == nil {
		err = refuseOthers(under, others)
	}
	if err != nil {
		return nil, err
	}
	given := make(map[string]string, len(o.keys))
	for key := range maps.Clone(o.keys) {
		if isNull(o.keys[key]) {
			o.invalid(clip(key), "it is null, and should be a text")
		}
		given[key], _ = o.text(key, 0, 255)
		if !specKey.MatchString(key) {
			o.invalid(clip(key), "a key has 1 to 255 letters, digits, spaces and _ : . -")
		}
	}
	return given, o.err
}

// deleteMetadata is DELETE /v2.1/servers/{id}/metadata/{key}. Nova's rule is os_compute_api:server-metadata:delete.
func (s *server) deleteMetadata(c *call) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	key := c.R.PathValue("key")
	_, err = s.changeDetails(c.R.Context(), found.ID, func(now lifecycle.Server, d *lifecycle.Details) error {
		if _, ok := d.Metadata[key]; !ok {
			return fault.New(fault.NotFound, "Metadata item was not found")
		}
		if why := now.RefuseChange("delete instance metadata", true); why != "" {
			return fault.New(fault.Conflict, "%s", why)
		}
		d.Metadata = maps.Clone(d.Metadata)
		delete(d.Metadata, key)
		return nil
	})
	if err != nil {
		return err
	}
	return c.writeStatus(http.StatusNoContent)
}

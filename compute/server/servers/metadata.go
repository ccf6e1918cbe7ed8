package servers

import (
	"maps"
	"net/http"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/server/catalog"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/fault"
)

// metadataRoutes returns the paths of the metadata of a server.
func metadataRoutes(s *Handlers) request.Routes {
	d := details{s.Store, s.Catalog, s.Now}
	return request.Routes{
		"/v2.1/servers/{id}/metadata": {
			http.MethodGet:  s.OfServer(policies.ListMetadata, d.listMetadata),
			http.MethodPost: s.OfServer(policies.CreateMetadata, request.UnlessLocked(d.addMetadata)),
			http.MethodPut:  s.OfServer(policies.ReplaceMetadata, request.UnlessLocked(d.replaceMetadata)),
		},
		"/v2.1/servers/{id}/metadata/{key}": {
			http.MethodGet:    s.OfServer(policies.ShowMetadata, d.showMetadata),
			http.MethodPut:    s.OfServer(policies.UpdateMetadata, request.UnlessLocked(d.putMetadata)),
			http.MethodDelete: s.OfServer(policies.DeleteMetadata, request.UnlessLocked(d.deleteMetadata)),
		},
	}
}

func (s details) listMetadata(c *request.Call, found lifecycle.Server) error {
	return c.WriteJSON(http.StatusOK, map[string]any{"metadata": request.NotNil(found.Metadata)})
}

func (s details) showMetadata(c *request.Call, found lifecycle.Server) error {
	key := c.R.PathValue("key")
	value, ok := found.Metadata[key]
	if !ok {
		return fault.New(fault.NotFound, "Metadata item was not found")
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"meta": map[string]string{key: value}})
}

// addMetadata is POST /v2.1/servers/{id}/metadata: it adds and overwrites. Nova's rule is
// os_compute_api:server-metadata:create.
func (s details) addMetadata(c *request.Call, found lifecycle.Server) error {
	return s.setMetadata(c, found.ID, "metadata", func(d *lifecycle.Details, given map[string]string) {
		d.Metadata = maps.Clone(request.NotNil(d.Metadata))
		maps.Copy(d.Metadata, given)
	})
}

func (s details) replaceMetadata(c *request.Call, found lifecycle.Server) error {
	return s.setMetadata(c, found.ID, "metadata", func(d *lifecycle.Details,
		given map[string]string) {
		d.Metadata = given
	})
}

// putMetadata is PUT /v2.1/servers/{id}/metadata/{key}; its body has this key alone. Nova's rule is
// os_compute_api:server-metadata:update.
func (s details) putMetadata(c *request.Call, found lifecycle.Server) error {
	return s.setMetadata(c, found.ID, "meta", func(d *lifecycle.Details, given map[string]string) {
		d.Metadata = maps.Clone(request.NotNil(d.Metadata))
		maps.Copy(d.Metadata, given)
	})
}

// setMetadata reads an object of texts under a key of the body, applies it to the server, and responds with the result.
func (s details) setMetadata(c *request.Call, id, under string,
	apply func(*lifecycle.Details, map[string]string)) error {
	given, err := readMetadata(c, under)
	if err != nil {
		return err
	}
	most, err := s.Catalog.Limit(c, quota.MetadataItems)
	if err != nil {
		return err
	}
	key := c.R.PathValue("key")
	if _, ok := given[key]; under == "meta" && (!ok || len(given) != 1) {
		return fault.New(fault.Invalid, "meta must have the one key %q, that of the path", edge.Clip(key))
	}
	found, err := s.changeDetails(c.R.Context(), id, func(now lifecycle.Server, d *lifecycle.Details) error {
		if why := now.RefuseChange("update instance metadata", true); why != "" {
			return fault.New(fault.Conflict, "%s", why)
		}
		if apply(d, given); most >= 0 && len(d.Metadata) > most {
			return fault.New(fault.Forbidden, "Maximum number of metadata items exceeds %d", most)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if under == "meta" {
		return c.WriteJSON(http.StatusOK, map[string]any{"meta": given})
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"metadata": request.NotNil(found.Metadata)})
}

// readMetadata reads a body that is an object with one key, whose value is an object of texts.
func readMetadata(c *request.Call, under string) (map[string]string, error) {
	o, others, err := c.Object(under)
	if err == nil {
		err = c.RefuseOthers(under, others)
	}
	if err != nil {
		return nil, err
	}
	given := make(map[string]string, len(o.Keys))
	for key := range maps.Clone(o.Keys) {
		if edge.IsNull(o.Keys[key]) {
			o.Invalid(edge.Clip(key), "it is null, and should be a text")
		}
		text := ""
		o.Text(key, &text, 255)
		given[key] = text
		if !catalog.SpecKey.MatchString(key) {
			o.Invalid(edge.Clip(key), "a key has 1 to 255 letters, digits, spaces and _ : . -")
		}
	}
	return given, o.Err()
}

func (s details) deleteMetadata(c *request.Call, found lifecycle.Server) error {
	key := c.R.PathValue("key")
	_, err := s.changeDetails(c.R.Context(), found.ID, func(now lifecycle.Server, d *lifecycle.Details) error {
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
	return c.WriteStatus(http.StatusNoContent)
}

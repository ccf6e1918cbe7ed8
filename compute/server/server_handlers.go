package server

import (
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
)

// listServers is GET /v2.1/servers.
func (s *server) listServers(c *call) error {
	return servers(c, func(w serverQuery) ([]compute.Ref, error) {
		found, err := s.serverRefs(c, w)
		refs := make([]compute.Ref, 0, len(found))
		for _, one := range found {
			refs = append(refs, compute.Ref{ID: one.ID, Name: one.Name, Links: c.links("servers", one.ID)})
		}
		return refs, err
	}, func(ref compute.Ref) string { return ref.ID })
}

// serverRefs returns the servers of a page. It reads records only for filters that need them.
func (s *server) serverRefs(c *call, w serverQuery) ([]store.ServerRef, error) {
	if w.tags.isEmpty() {
		return s.Store.ServerRefs(c.R.Context(), w.filter)
	}
	found, err := s.foundServers(c, w)
	refs := make([]store.ServerRef, 0, len(found))
	for _, one := range found {
		refs = append(refs, store.ServerRef{ID: one.ID, Name: one.Name})
	}
	return refs, err
}

// detailServers is GET /v2.1/servers/detail.
func (s *server) detailServers(c *call) error {
	return servers(c, func(w serverQuery) ([]compute.Server, error) {
		found, err := s.foundServers(c, w)
		if err != nil {
			return nil, err
		}
		hosts, err := s.hostStates(c.R.Context(), c, found...)
		if err != nil {
			return nil, err
		}
		views := make([]compute.Server, 0, len(found))
		for _, one := range found {
			views = append(views, c.server(one, hosts))
		}
		return views, nil
	}, func(v compute.Server) string { return v.ID })
}

// foundServers returns the servers of a page.
func (s *server) foundServers(c *call, w serverQuery) ([]lifecycle.Server, error) {
	limit := w.filter.Limit
	if w.tags.isEmpty() {
		return s.Store.ListServers(c.R.Context(), w.filter)
	}
	return collect(limit, func(limit int, last *lifecycle.Server) ([]lifecycle.Server, error) {
		w.filter.Limit = limit
		if last != nil {
			w.filter.Marker = last.ID
		}
		return s.Store.ListServers(c.R.Context(), w.filter)
	}, func(one lifecycle.Server) bool { return w.tags.keeps(one.Tags) })
}

// servers writes the page of servers that the query selects. page returns its views, id the server of a view.
func servers[View any](c *call, page func(serverQuery) ([]View, error), id func(View) string) error {
	q := c.R.URL.Query()
	limit, marker, err := c.readPage(q)
	if err != nil {
		return err
	}
	w, err := c.readServerQuery(q)
	if err != nil {
		return err
	}
	list := []View{}
	if !w.none && limit > 0 { // the store takes a limit of 0 for none
		w.filter.Marker, w.filter.Limit, w.filter.Keep = marker, limit, w.keep()
		if list, err = page(w); err != nil {
			return err
		}
	}
	body := map[string]any{"servers": list}
	if len(list) > 0 {
		if next := c.nextLinks(limit, len(list), id(list[len(list)-1])); next != nil {
			body["servers_links"] = next
		}
	}
	return c.writeJSON(http.StatusOK, body)
}

// visibleServer reads the server of the path. It returns fault.NotFound if the caller may not see it, or if it is
// deleted and deleted is false, and refuses what the policy does not allow about this server.
func (s *server) visibleServer(c *call, deleted bool) (lifecycle.Server, error) {
	id := c.R.PathValue("id")
	found, err := s.Store.Read(c.R.Context(), id)
	hidden := err == nil && (found.Project != c.Who.Project && !c.Who.IsAdmin() || !found.Ended.IsZero() && !deleted)
	if hidden || fault.Is(err, fault.NotFound) {
		return lifecycle.Server{}, fault.New(fault.NotFound, "Instance %s could not be found.", id)
	}
	if err != nil {
		return lifecycle.Server{}, err
	}
	return found, c.Authorize(c.rule, ownerOf(found))
}

// ownerOf returns the attributes of a server for the policy.
func ownerOf(s lifecycle.Server) map[string]any {
	return map[string]any{"project_id": s.Project, "user_id": s.User}
}

// showServer is GET /v2.1/servers/{id}.
func (s *server) showServer(c *call) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	return s.writeServer(c, found)
}

// writeServer responds with one server in detail.
func (s *server) writeServer(c *call, found lifecycle.Server) error {
	hosts, err := s.hostStates(c.R.Context(), c, found)
	if err != nil {
		return err
	}
	return c.writeJSON(http.StatusOK, map[string]any{"server": c.server(found, hosts)})
}

// deleteServer is DELETE /v2.1/servers/{id}. It responds as soon as the request is recorded.
func (s *server) deleteServer(c *call) error {
	found, err := s.visibleServer(c, false)
	if err != nil {
		return err
	}
	if err := s.Conductor.Delete(c.R.Context(), found.ID); err != nil {
		return err
	}
	return c.writeStatus(http.StatusNoContent)
}

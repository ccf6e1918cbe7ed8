package servers

import (
	"math"
	"net/http"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/policies"
	"github.com/openberth/berth/compute/server/networking"
	"github.com/openberth/berth/compute/server/request"
	"github.com/openberth/berth/compute/store"
)

// serverRoutes returns the paths of servers.
func serverRoutes(s *Handlers) request.Routes {
	return request.Routes{
		"/v2.1/servers": {
			http.MethodGet:  request.Guarded(policies.ListServers, s.listServers),
			http.MethodPost: request.Guarded(policies.CreateServer, s.createServers),
		},
		"/v2.1/servers/detail": {http.MethodGet: request.Guarded(policies.DetailServers, s.detailServers)},
		"/v2.1/servers/{id}": {
			http.MethodGet:    s.OfServer(policies.ShowServer, s.showServer),
			http.MethodPut:    s.OfServer(policies.UpdateServer, s.updateServer),
			http.MethodDelete: s.OfServer(policies.DeleteServer, request.UnlessLocked(s.deleteServer)),
		},
	}
}

func (s *Handlers) listServers(c *request.Call) error {
	return servers(c, func(w serverQuery) ([]compute.Ref, error) {
		found, err := s.serverRefs(c, w)
		refs := make([]compute.Ref, 0, len(found))
		for _, one := range found {
			refs = append(refs, compute.Ref{ID: one.ID, Name: one.Name, Links: c.Links("servers", one.ID)})
		}
		return refs, err
	}, func(ref compute.Ref) string { return ref.ID })
}

// serverRefs returns the servers of a page. It reads records only for filters that need them.
func (s *Handlers) serverRefs(c *request.Call, w serverQuery) ([]store.ServerRef, error) {
	if len(w.records) == 0 && w.order == nil {
		return s.Store.ServerRefs(c.R.Context(), w.filter)
	}
	found, err := s.foundServers(c, w)
	refs := make([]store.ServerRef, 0, len(found))
	for _, one := range found {
		refs = append(refs, store.ServerRef{ID: one.ID, Name: one.Name})
	}
	return refs, err
}

func (s *Handlers) detailServers(c *request.Call) error {
	return servers(c, func(w serverQuery) ([]compute.Server, error) {
		found, err := s.foundServers(c, w)
		if err != nil {
			return nil, err
		}
		hosts, err := s.HostStates(c.R.Context(), c, found...)
		if err != nil {
			return nil, err
		}
		views := make([]compute.Server, 0, len(found))
		groups := s.Networking.Groups().Of(c.R.Context(), found...)
		for _, one := range found {
			v := serverView(c, one, hosts)
			v.SecurityGroups = networking.GroupNames(groups[one.ID])
			views = append(views, v)
		}
		return views, nil
	}, func(v compute.Server) string { return v.ID })
}

// foundServers returns the servers of a page. For another order than that of the store it reads all servers that the
// query selects.
func (s *Handlers) foundServers(c *request.Call, w serverQuery) ([]lifecycle.Server, error) {
	limit, marker := w.filter.Limit, w.filter.Marker
	if len(w.records) == 0 && w.order == nil {
		return s.Store.ListServers(c.R.Context(), w.filter)
	}
	wanted := limit
	if w.order != nil {
		wanted, w.filter.Marker = math.MaxInt, ""
	}
	found, err := request.Collect(wanted, func(limit int, last *lifecycle.Server) ([]lifecycle.Server, error) {
		w.filter.Limit = limit
		if last != nil {
			w.filter.Marker = last.ID
		}
		return s.Store.ListServers(c.R.Context(), w.filter)
	}, w.matches)
	if err != nil || w.order == nil {
		return found, err
	}
	last, err := markerOf(c.R.Context(), s.Store, marker, w.filter.Project)
	return sortedPage(found, w.order, last, limit), err
}

// servers writes the page of servers that the query selects. page returns its views, id the server of a view.
func servers[View any](c *request.Call, page func(serverQuery) ([]View, error), id func(View) string) error {
	q := c.R.URL.Query()
	limit, marker, err := c.ReadPage(q)
	if err != nil {
		return err
	}
	w, err := readServerQuery(c)
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
		if next := c.NextLinks(limit, len(list), id(list[len(list)-1])); next != nil {
			body["servers_links"] = next
		}
	}
	return c.WriteJSON(http.StatusOK, body)
}

func (s *Handlers) showServer(c *request.Call, found lifecycle.Server) error {
	return s.writeServer(c, found)
}

// deleteServer is DELETE /v2.1/servers/{id}. It responds as soon as the request is recorded.
func (s *Handlers) deleteServer(c *request.Call, found lifecycle.Server) error {
	if err := s.Conductor.Delete(c.R.Context(), found.ID, request.Caller(c)); err != nil {
		return err
	}
	return c.WriteStatus(http.StatusNoContent)
}

// updateServer is PUT /v2.1/servers/{id}: it changes the name and, since 2.19, the description. Nova's rule is
// os_compute_api:servers:update.
func (s *Handlers) updateServer(c *request.Call, found lifecycle.Server) error {
	o, others, err := c.Object("server")
	if err == nil {
		err = c.RefuseOthers("server", others)
	}
	if err != nil {
		return err
	}
	name, description, describe := found.Name, "", false
	_, rename := o.Keys["name"]
	if rename {
		name = request.NameText(o, "name")
	}
	if c.Has(compute.ServerDescription) {
		_, describe = o.Keys["description"]
		o.Text("description", &description, 255)
	}
	change := ReadDescribed(o)
	hostname := ""
	renameHost := ReadHostname(c, o, &hostname)
	pin := readPin(c, o)
	o.Reasons = UnsupportedKeys(c.Microversion)
	if err := o.Finish(); err != nil {
		return err
	}
	found, err = details{s.Store, s.Catalog, s.Now}.changeDetails(c.R.Context(), found.ID, func(now lifecycle.Server,
		d *lifecycle.Details) error {
		if rename {
			d.Name = name
		}
		if describe {
			d.Description = description
		}
		if renameHost {
			d.Hostname = hostname
		}
		*d = change.Applied(*d)
		if pin != nil {
			d.Zone = *pin
			return checkPin(now, *pin)
		}
		return nil
	})
	if err != nil {
		return err
	}
	hosts, err := s.HostStates(c.R.Context(), c, found)
	if err != nil {
		return err
	}
	v, err := s.OneView(c, found, hosts)
	if err != nil {
		return err
	}
	view, err := ChangedView(c, v)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, map[string]any{"server": view})
}

package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
)

// serversOfPage is the number of servers of one page.
const serversOfPage = 100

// serversContent is the content of the page of servers.
type serversContent struct {
	Name    string // a part of the names; empty: any
	Servers []compute.Server
	Next    string // address of the next page; empty: there is none
	Own     bool   // only those of the user's project
}

// servers lists servers: those of all projects for users who may list them, else those of the project.
func (c *Console) servers(w http.ResponseWriter, r *http.Request, one *session) error {
	q := url.Values{"limit": {strconv.Itoa(serversOfPage)}, "all_tenants": {"1"}}
	content := serversContent{Name: r.URL.Query().Get("name")}
	for name, value := range map[string]string{"name": content.Name, "marker": r.URL.Query().Get("marker")} {
		if value != "" {
			q.Set(name, value)
		}
	}
	list, err := listServers(r.Context(), one.clients.Compute, q)
	if fault.Is(err, fault.Forbidden) && !refused(err) {
		content.Own = true
		q.Del("all_tenants")
		list, err = listServers(r.Context(), one.clients.Compute, q)
	}
	if err != nil {
		return err
	}
	if content.Servers = list; len(list) == serversOfPage {
		next := url.Values{"marker": {list[len(list)-1].ID}}
		if content.Name != "" {
			next.Set("name", content.Name)
		}
		content.Next = "/servers?" + next.Encode()
	}
	p := one.page("Servers", "servers", nil)
	p.Content = content
	c.render(w, http.StatusOK, "servers", p)
	return nil
}

// listServers reads one page of servers.
func listServers(ctx context.Context, client *compute.Client, q url.Values) ([]compute.Server, error) {
	var out struct {
		Servers []compute.Server `json:"servers"`
	}
	_, err := client.REST.Do(ctx, http.MethodGet, "/v2.1/servers/detail?"+q.Encode(), nil, &out)
	return out.Servers, err
}

// serverContent is the content of the page of a server.
type serverContent struct{ *view.ServerPage }

// Cell returns a cell of a host with its link.
func (serverContent) Cell(host string, c view.Cell) linkedCell { return cellOf(host, c) }

// Ends returns how a move that waits can end.
func (serverContent) Ends() []ending {
	return []ending{{endConfirm, "Confirm", "The guest as it was before is removed, with what it holds on its host."},
		{endRevert, "Revert", "The guest as it is now is removed. The one as it was before is started again on its host, " +
			"if it ran."}}
}

// ending is one way in which a move can end.
type ending struct{ Do, Button, What string }

// server shows one server. While a task is in progress, the page loads itself again.
func (c *Console) server(w http.ResponseWriter, r *http.Request, one *session) error {
	id := r.PathValue("server")
	found, err := one.clients.Compute.ServerByID(r.Context(), id)
	if err != nil {
		return err
	}
	source, err := readServer(r.Context(), one.clients, found)
	if err != nil {
		return err
	}
	cloud, _, err := one.cloud(r) // only for names; a user without the right to read it sees ids
	if refused(err) {
		return err
	}
	p := one.page(found.Name, "servers", nil)
	if found.TaskState != nil && *found.TaskState != "" {
		p.Refresh = 3
	}
	p.Content = serverContent{cloud.Server(source)}
	c.render(w, http.StatusOK, "server", p)
	return nil
}

// readServer reads what belongs to a server. It returns an error only if the credentials are no longer accepted.
func readServer(ctx context.Context, clients Clients, s compute.Server) (out view.ServerSource, err error) {
	out.Server = s
	var wait sync.WaitGroup
	var noDecisions, noPorts error
	wait.Go(func() { noDecisions = readDecisions(ctx, clients, s.ID, &out) })
	wait.Go(func() {
		if clients.Network != nil {
			out.Ports, noPorts = clients.Network.Ports(ctx, url.Values{"device_id": {s.ID}})
		}
	})
	wait.Wait()
	for _, part := range []struct {
		name string
		err  error
	}{{"decisions", noDecisions}, {"ports", noPorts}} {
		if refused(part.err) {
			return out, part.err
		}
		if part.err != nil {
			out.Missing = append(out.Missing, part.name+": "+fault.TextOf(part.err))
		}
	}
	return out, nil
}

// readDecisions reads the decisions about a server, or its actions where compute is Nova. For a server without a host
// it reads why its request has no candidates now.
func readDecisions(ctx context.Context, clients Clients, id string, out *view.ServerSource) (err error) {
	if clients.Hosts == nil {
		out.Actions, err = clients.Compute.InstanceActions(ctx, id)
		return err
	}
	why, err := clients.Compute.Why(ctx, id)
	if err != nil {
		return err
	}
	out.Why = &why
	if why.Host != "" || why.Query == "" {
		return nil
	}
	var now placement.Explanation
	_, err = clients.Placement.REST.Do(ctx, http.MethodGet, "/berth/v1/explain?"+why.Query, nil, &now)
	if err == nil {
		out.Now = &now
	}
	return err
}

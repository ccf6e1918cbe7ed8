package console

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/console/view"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/headroom"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/resource"
)

// askContent is the content of the page of a request.
type askContent struct {
	Form   askForm
	Answer *view.Answer // nil: the form has no request
}

// ask shows the form of a request, and the answer.
func (c *Console) ask(w http.ResponseWriter, r *http.Request, one *session) error {
	content, cloud, err := c.asked(r, one)
	if err != nil {
		return err
	}
	list, err := one.clients.Compute.Flavors(r.Context())
	if refused(err) {
		return err
	}
	if err != nil {
		content.Form.NoFlavors = fault.TextOf(err)
	}
	for _, f := range list {
		content.Form.Flavors = append(content.Form.Flavors, f.Name)
	}
	slices.Sort(content.Form.Flavors)
	content.Form.Flavors = slices.Compact(content.Form.Flavors)
	p := one.page("Ask", "ask", cloud)
	p.Content = content
	c.render(w, http.StatusOK, "ask", p)
	return nil
}

// askAnswer returns the answer alone, for the script of the page.
func (c *Console) askAnswer(w http.ResponseWriter, r *http.Request, one *session) error {
	content, _, err := c.asked(r, one)
	if err != nil {
		return err
	}
	c.render(w, http.StatusOK, "answer", page{Content: content})
	return nil
}

// asked returns the form and the answer of a request. cloud is nil unless it is read. It returns an error only if the
// credentials are no longer accepted: other errors are parts of the answer.
func (c *Console) asked(r *http.Request, one *session) (content askContent, cloud *view.Cloud, err error) {
	content.Form = newAskForm(r.URL.Query())
	if content.Form.isEmpty() {
		return content, nil, nil
	}
	cloud, _, noCloud := one.cloud(r)
	q := question{clients: one.clients, cloud: cloud, noCloud: noCloud}
	if q.err(noCloud) == nil {
		q.make(r.Context(), content.Form)
	}
	if q.refused == nil && q.source.Error == "" && len(q.ask.Groups) > 0 {
		q.candidates(r.Context())
	}
	if q.refused == nil && q.source.Error == "" {
		q.room(r.Context(), content.Form, one.counting, c.counting)
	}
	content.Answer = cloud.Answer(q.source)
	return content, cloud, q.refused
}

// question is a request and what is found out about it.
type question struct {
	clients Clients
	cloud   *view.Cloud
	noCloud error // why cloud is nil
	ask     resource.Ask
	flavor  compute.Flavor // its id is empty for a request of groups
	source  view.AskSource
	refused error // the services no longer accept the credentials
}

// err records the error of a service that no longer accepts the credentials, and returns it.
func (q *question) err(err error) error {
	if refused(err) {
		q.refused = err
		return err
	}
	return nil
}

// missing records that a part of the answer was not found out.
func (q *question) missing(part string, err error) {
	if q.err(err) == nil {
		q.source.Missing = append(q.source.Missing, part+": "+fault.TextOf(err))
	}
}

// make makes the request of a form.
func (q *question) make(ctx context.Context, f askForm) {
	groups, err := f.query()
	switch {
	case err != nil:
	case f.Flavor != "" && len(groups) > 0:
		err = fault.New(fault.Invalid, "the request has a flavor and groups; choose a flavor or write groups, not both")
	case f.Flavor != "":
		err = q.ofFlavor(ctx, f)
	case f.Port != "" && len(groups) == 0:
		err = fault.New(fault.Invalid, "the request has a port and no flavor; choose a flavor")
	case f.Port != "":
		err = fault.New(fault.Invalid, "the request has a port and groups; choose a flavor for a server with a port")
	default:
		q.ask, err = f.ask()
	}
	if err != nil && q.err(err) == nil {
		q.source.Error = fault.TextOf(err)
	}
}

// ofFlavor makes the request of a flavor with ports. The devices of aliases are left out: only compute knows these.
func (q *question) ofFlavor(ctx context.Context, f askForm) (err error) {
	var ports []fleet.PortRequest
	if f.Port != "" {
		port, err := fleet.ParsePort(f.Port, 0)
		if err != nil {
			return err
		}
		ports = append(ports, port)
	}
	if q.flavor, err = q.clients.Compute.Flavor(ctx, f.Flavor); err != nil {
		return err
	}
	server := fleet.Server{Flavor: read.Flavor(q.flavor)}
	q.ask, q.source.LeftOut, err = server.Request(ports, nil, false)
	q.ask.Limit = maxAsked
	return err
}

// candidates asks Placement for candidates, and why there are none.
func (q *question) candidates(ctx context.Context) {
	client := *q.clients.Placement
	client.REST = client.REST.WithHeader(placement.CandidatesHeader, placement.ForPlanning) // returns the limit too
	found, err := client.Candidates(ctx, q.ask)
	found.Complete = found.Complete && len(found.List) < q.ask.Limit
	switch {
	case fault.Is(err, fault.Invalid):
		q.source.Error = fault.TextOf(err)
		return
	case err != nil:
		q.missing("candidates", err)
		return
	}
	if q.source.Candidates = &found; len(found.List) > 0 {
		return
	}
	why, err := q.clients.Placement.Explain(ctx, q.ask)
	switch {
	case err == nil:
		q.source.Why = &why
	case fault.Is(err, fault.NotFound): // of OpenStack's Placement; the count has the reason
	default:
		q.missing("why there are none", err)
	}
}

// errNotAwaited is the error of a count that was ended.
var errNotAwaited = fault.New(fault.Unavailable, "the browser did not wait for the answer")

// room counts how many more servers fit: Berth's compute does for a flavor, else this process from what was read of
// Placement. A count needs a place in each of limits.
func (q *question) room(ctx context.Context, f askForm, limits ...chan struct{}) {
	const part = "how many more fit"
	if q.flavor.ID != "" && q.clients.Hosts != nil {
		var ports []string
		if f.Port != "" {
			ports = []string{f.Port}
		}
		got, err := q.clients.Hosts.Headroom(ctx, q.flavor.ID, ports)
		if err != nil {
			q.missing(part, err)
			return
		}
		q.source.Room, q.source.Filters = view.RoomOfBerth(got), true
		return
	}
	switch {
	case errors.Is(q.noCloud, errReading):
		q.source.Reading = "The cloud is read for the first time, and how many more fit is counted then."
		return
	case q.noCloud != nil:
		q.missing(part, q.noCloud)
		return
	case len(q.ask.Groups) == 0:
		return
	}
	for _, places := range limits {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			q.missing(part, errNotAwaited)
			return
		}
	}
	counted := headroom.Count(q.cloud.Fleet, q.ask, func() bool { return ctx.Err() != nil })
	if ctx.Err() != nil {
		q.missing(part, errNotAwaited)
		return
	}
	q.source.Room = view.RoomOf(counted)
}

package eventstream

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// streamTime is how long a stream lasts: then the client connects again, and its token and role are checked again.
const streamTime = time.Hour

// The numbers of streams at one time. Administrators have places of their own, so that users cannot take all.
const (
	maxStreams        = 128 // of callers of one sort: administrators, or users of projects
	maxProjectStreams = 32
)

// Feed is GET /berth/v1/events of one service.
type Feed struct {
	*Follower
	Kinds   []string // the kinds of objects of the service
	Classes bool     // its objects have resource classes

	mu    sync.Mutex
	taken map[seat]int
}

// seat is whose streams are counted. Without a project it is all callers of the sort.
type seat struct {
	own     bool
	project string
}

// Access is what a caller may watch.
type Access struct {
	Project string // of the caller
	Own     bool   // it gets only the objects of its project
}

// Serve answers a request with a stream of the changes that its query selects. The query has the filters kind, id,
// host, project and class, state=true for the whole state first, and follow=false for a stream that ends when the
// client has all. The header Last-Event-ID has the cursor of the last event that the client has. It returns
// fault.Invalid for a wrong query, fault.Forbidden for objects of another project, and a fault of status 429 if the
// project, or all callers, have too many streams.
func (f *Feed) Serve(c *edge.Call, a Access) error {
	filter, much, err := f.filter(c.R.URL.RawQuery, a)
	if err != nil {
		return err
	}
	if c.R.Method == http.MethodHead {
		c.W.Header().Set("Content-Type", contentType)
		return c.WriteStatus(http.StatusOK)
	}
	stand, err := f.sit(a)
	if err != nil {
		return err
	}
	defer stand()
	log, leave, err := f.Log(c.Context())
	if err != nil {
		return fault.New(fault.Unavailable, "the service has not read its events in time; try again later")
	}
	defer leave()
	ctx, stop := context.WithTimeout(rest.Unlimited(c.R.Context()), streamTime)
	defer stop()
	return Stream(ctx, c.W, log, c.R.Header.Get("Last-Event-ID"), filter, much)
}

// sit counts a stream until stand is called.
func (f *Feed) sit(a Access) (stand func(), err error) {
	all, own := seat{own: a.Own}, seat{own: a.Own, project: "project " + a.Project}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.taken[own] >= maxProjectStreams:
		return nil, edge.StatusErrorf(http.StatusTooManyRequests,
			"%d clients of the project watch events already; end one of them", maxProjectStreams)
	case f.taken[all] >= maxStreams:
		return nil, edge.StatusErrorf(http.StatusServiceUnavailable, "%d clients watch events already; try again later",
			maxStreams)
	}
	if f.taken == nil {
		f.taken = map[seat]int{}
	}
	f.taken[all]++
	f.taken[own]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.taken[all]--
		if f.taken[own]--; f.taken[own] == 0 {
			delete(f.taken, own)
		}
	}, nil
}

// filter parses the query, and restricts it to what the caller may watch.
func (f *Feed) filter(query string, a Access) (to Filter, much Extent, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return to, much, fault.New(fault.Invalid, "Invalid query string parameters: %w", err)
	}
	if to, much, err = f.parse(q); err != nil || !a.Own {
		return to, much, err
	}
	switch {
	case a.Project == "":
		return to, much, fault.New(fault.Forbidden, "only administrators can watch events without a project; "+
			"use a token for a project")
	case len(to.Hosts) > 0:
		return to, much, fault.New(fault.Forbidden, "only administrators can select events by host; leave out host")
	case len(to.Projects) > 0 && !slices.Equal(to.Projects, []string{a.Project}):
		return to, much, fault.New(fault.Forbidden, "only administrators can watch the events of other projects; "+
			"leave out project")
	}
	to.Projects, to.Own = []string{a.Project}, true
	return to, much, nil
}

// parse parses the query.
func (f *Feed) parse(q url.Values) (to Filter, much Extent, err error) {
	invalid := func(format string, args ...any) (Filter, Extent, error) {
		return Filter{}, Extent{}, fault.New(fault.Invalid, "Invalid query string parameters: "+format, args...)
	}
	lists := map[string]*[]string{"kind": &to.Kinds, "id": &to.IDs, "host": &to.Hosts, "project": &to.Projects}
	names := "kind, id, host, project, "
	if f.Classes {
		lists["class"] = &to.Classes
		names += "class, "
	}
	follow := true
	switches := map[string]*bool{"state": &much.Whole, "follow": &follow}
	for key, values := range q {
		values = strings.Split(strings.Join(values, ","), ",")
		switch list, is := lists[key], switches[key]; {
		case list != nil:
			*list = values
		case is == nil:
			return invalid("%q is not one of %sstate, follow", key, names)
		default:
			if *is, err = strconv.ParseBool(values[0]); err != nil {
				return invalid("%s=%q is not true or false", key, values[0])
			}
		}
	}
	much.Once = !follow
	for _, kind := range to.Kinds {
		if !slices.Contains(f.Kinds, kind) {
			return invalid("kind=%q is not one of %s", kind, strings.Join(f.Kinds, ", "))
		}
	}
	return to, much, nil
}

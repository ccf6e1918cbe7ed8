// Package server implements the Placement HTTP API.
//
//	request ─▶ api/edge: id, limits, caller, microversion, route ─▶ handler ─┬─▶ store   (all reads and writes
//	                                                                         │            except candidates)
//	                                                                         └─▶ index   (candidates)
//	                                         trees of a write ◀── store ─────┘ ▲
//	                                                 └── read again, replaced ─┘ before the write is answered
//
// The database decides whether a claim is granted; the index only proposes candidates. The differences between
// microversions are in request/call.go and in the tables of routes. Package api/edge receives the requests. The files
// from the bottom to the top:
//
//	options                        the options, and the server
//	announcements                  writes that processes announce to each other
//	events                         the stream of changes
//	health                         /healthz and the metrics of the index
//	usage_history                  what is used, recorded each minute
//	routes, server                 the table of paths; what connects the parts
//
// The handlers are in packages below this one. From the bottom to the top:
//
//	request     the call, the checks of every request, bounds of searches, what is sent
//	candidates  queries for candidates, explanations, headroom
//	resources   providers, inventories, traits, classes, usages, allocations, reshapes; trees, hosts and devices
//
// Statuses, bodies, codes and headers are those of OpenStack's own Placement. The intended differences are:
//   - Error texts are Berth's own. Errors are always JSON, whatever the Accept header of the request.
//   - Vary is sent with every answer that has a microversion. The original omits it from some errors.
//   - Allow is also sent if a method does not exist yet at the requested microversion.
//   - PUT /resource_providers/{uuid} has Last-Modified also at the first change of a provider.
//   - A refused claim leaves nothing behind. In the original the consumer may remain, with generation 0.
//   - Amounts are added once if the unsuffixed group and a suffixed one use one inventory and no group policy is given.
//   - Names do not end in a newline, and an unpaired surrogate is refused.
//   - /healthz, /metrics, and the paths below /berth/v1 exist; the first two need no authentication.
//   - The number of request groups, the length of the request line and the size of bodies are limited.
package server

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/events"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/metrics"
	"github.com/openberth/berth/placement/policies"
	"github.com/openberth/berth/placement/server/request"
	"github.com/openberth/berth/placement/store"
)

// defaultMaxBody is the default limit of a request body in bytes. Validating a JSON body takes about thirty times its
// length in memory. A reshape of thousands of providers fits into the limit.
const defaultMaxBody = 8 << 20

// defaultRefreshInterval is the default of [berth] index_refresh_interval.
const defaultRefreshInterval = time.Second

// pollRest bounds the polls after writes to a tenth of the time of one processor: the next one waits this many times as
// long as the last one took.
const pollRest = 9

// New returns a server on a store whose schema exists. It reads the whole database into the index.
func New(ctx context.Context, s *store.Store, opts Options) (*Server, error) {
	opts.Options = opts.WithDefaults(policies.Default())
	if opts.Metrics == nil {
		opts.Metrics = metrics.New()
	}
	if opts.RefreshInterval <= 0 {
		opts.RefreshInterval = defaultRefreshInterval
	}
	if opts.MaxBody <= 0 {
		opts.MaxBody = defaultMaxBody
	}
	srv := &Server{database: s, opts: opts, following: following{polls: make(chan chan<- error)}}
	live := liveindex.New(s)
	srv.changes = events.NewSource(events.Reads{Shares: s.Shares, Snapshot: live.Snapshot})
	srv.feed = &eventstream.Feed{Follower: eventstream.NewFollower(srv.changes, opts.Log), Kinds: events.Kinds(),
		Classes: true}
	if s.Announces() {
		srv.announcements = newAnnouncements(uuid.NewString())
	}
	srv.service = &request.Service{Store: s, Index: live, Names: liveindex.NewNames(s), Bodies: api.NewBodies(),
		Metrics: opts.Metrics,
		Log:     opts.Log, Challenge: opts.Challenge, MaxBody: opts.MaxBody, Search: opts.search(),
		Changed: srv.changes.Touch, Announce: srv.announcements.announce, Bounds: request.NewBounds(opts.MaxBody),
		Now: opts.Now, NewID: uuid.NewString, Shuffle: shuffle, Pick: rand.IntN}
	srv.edge = edge.New(srv.declare())
	if s.Watch == nil {
		s.Watch = func(r store.Run) { opts.Metrics.Transaction(r.Op, r.Attempts, r.Took, r.Err) }
	}
	var err error
	if srv.syncer, err = liveindex.NewSyncer(ctx, s, srv.service.Index, srv.service.Names); err != nil {
		return nil, fault.Wrap("", err)
	}
	if err := srv.Reload(ctx); err != nil {
		return nil, fault.Wrap("", err)
	}
	srv.service.Metrics.WatchIndex(srv.indexState)
	srv.service.Metrics.WatchResources(srv.service.Index.Snapshot)
	return srv, nil
}

// Reload reads the whole database into the index. Run does not need it: it detects by itself which trees have changed.
func (s *Server) Reload(ctx context.Context) error {
	began := s.service.Now()
	err := s.service.Index.Reload(ctx)
	if err == nil {
		s.verifiedAt.Store(&began)
	}
	return err
}

// Run updates the index with the writes of other processes to the database, until ctx ends. Without Run the index
// contains only the writes of this server. A write of another process is in the index after Options.RefreshInterval and
// the time of one poll, which is a fraction of a second for ten thousand hosts; that of another Berth is there after
// some milliseconds, because Berths announce their writes on PostgreSQL and MariaDB. On SQLite the index is compared
// soon after the file was written. While the database does not answer, the index becomes older, which /healthz and
// /metrics report. Call Run once.
func (s *Server) Run(ctx context.Context) {
	ticks := time.NewTicker(s.opts.RefreshInterval)
	defer ticks.Stop()
	var running sync.WaitGroup
	running.Go(func() { s.feed.Run(ctx) })
	running.Go(func() { s.runAnnouncements(ctx) })
	running.Go(func() { s.keepHistory(ctx) })
	written := make(chan struct{}, 1)
	running.Go(func() {
		s.service.Store.Written(ctx, func() {
			select {
			case written <- struct{}{}:
			default:
			}
		})
	})
	defer running.Wait()
	var rest time.Time // until then, what was written waits
	later := time.NewTimer(time.Hour)
	later.Stop()
	failing := false
	var waiting chan<- error // of a call of Synchronize
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		case done := <-s.polls:
			waiting = done
		case <-written:
			if wait := rest.Sub(s.service.Now()); wait > 0 {
				later.Reset(wait)
				continue
			}
		case <-later.C:
		}
		began := s.service.Now()
		err := s.syncer.Poll(ctx)
		rest = s.service.Now().Add(pollRest * s.service.Now().Sub(began))
		if waiting != nil {
			waiting <- err
			waiting = nil
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.verifiedAt.Store(&began)
			if failing {
				s.service.Log.Info("index synchronized again")
			}
		case !failing:
			s.service.Log.Warn("index not synchronized", "error", err)
		}
		failing = err != nil
	}
}

// Synchronize returns when the index has everything that other processes wrote before the call. Run must be running.
func (s *Server) Synchronize(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case s.polls <- done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// shuffle brings n elements into random order.
func shuffle(n int, swap func(i, j int)) { rand.Shuffle(n, swap) }

// search returns the options of queries for candidates.
func (o Options) search() request.Search {
	return request.Search{RandomizeCandidates: o.RandomizeCandidates, BreadthFirst: o.BreadthFirst,
		MaxCandidates: o.MaxCandidates}
}

// declare returns the API for package edge.
func (s *Server) declare() edge.API[*request.Call] {
	o := s.opts.Options
	o.Now, o.Metrics = func() time.Time { return s.service.Now() }, s.service.Metrics.Metrics
	return edge.API[*request.Call]{
		Options: o, Bodies: s.service.BodyBudget, Database: s.database,
		IDHeaders: []string{"Openstack-Request-Id", "X-Openstack-Request-Id"},
		Routes:    s.routes(), Checks: request.Checks(), Refuse: (*request.Call).Refuse, Encode: (*request.Call).Encode,
		NewCall: func() *request.Call { return &request.Call{Service: s.service, Reads: s.service.Index.Reads()} },
		Health:  edge.Health{Check: s.checkHealth, Describe: s.describeHealth},
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.edge.ServeHTTP(w, r) }

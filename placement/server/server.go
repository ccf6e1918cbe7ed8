// Package server implements the Placement HTTP API.
//
//	request ─▶ api/edge: id, limits, caller, microversion, route ─▶ handler ─┬─▶ store   (all reads and writes
//	                                                                         │            except candidates)
//	                                                                         └─▶ index   (candidates)
//	                                         trees of a write ◀── store ─────┘ ▲
//	                                                 └── read again, replaced ─┘ before the write is answered
//
// The database decides whether a claim is granted; the index only proposes candidates. The differences between
// microversions are in call.go and in the route table. Package api/edge receives the requests. The files from the
// bottom to the top:
//
//	turns                          fair shares of searches that take long
//	call                           the server, and the state of one request
//	json, answers, errors          what is sent
//	refresh                        the index after a write
//	requests                       the checks of every request, its query and its body
//	allocations                    allocations of consumers and providers, reshapes
//	search_limits                  the slot of a search and its limits
//	candidate_stream               the answer with candidates, in chunks
//	unknown_names, candidates      queries for candidates, explanations
//	providers, inventories, traits, classes, usages
//	health                         /healthz and the metrics of the index
//	usage_history                  what is used, recorded each minute
//	routes, server                 the table of paths; what connects the parts
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
	bodies, err := api.NewBodies()
	if err != nil {
		return nil, err
	}
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
	srv.service = &sharedService{store: s, index: live, names: liveindex.NewNames(s), bodies: bodies, metrics: opts.Metrics,
		log: opts.Log, challenge: opts.Challenge, maxBody: opts.MaxBody, search: opts.search(),
		changed: srv.changes.Touch, announce: srv.announcements.announce, bounds: newBounds(opts.MaxBody),
		now: opts.Now, newID: uuid.NewString, shuffle: shuffle, pick: rand.IntN}
	srv.edge = edge.New(srv.declare())
	if s.Watch == nil {
		s.Watch = func(r store.Run) { opts.Metrics.Transaction(r.Op, r.Attempts, r.Took, r.Err) }
	}
	if srv.syncer, err = liveindex.NewSyncer(ctx, s, srv.service.index, srv.service.names); err != nil {
		return nil, fault.Wrap("", err)
	}
	if err := srv.Reload(ctx); err != nil {
		return nil, fault.Wrap("", err)
	}
	srv.service.metrics.WatchIndex(srv.indexState)
	srv.service.metrics.WatchResources(srv.service.index.Snapshot)
	return srv, nil
}

// Reload reads the whole database into the index. Run does not need it: it detects by itself which trees have changed.
func (s *Server) Reload(ctx context.Context) error {
	began := s.service.now()
	err := s.service.index.Reload(ctx)
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
		s.service.store.Written(ctx, func() {
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
			if wait := rest.Sub(s.service.now()); wait > 0 {
				later.Reset(wait)
				continue
			}
		case <-later.C:
		}
		began := s.service.now()
		err := s.syncer.Poll(ctx)
		rest = s.service.now().Add(pollRest * s.service.now().Sub(began))
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
				s.service.log.Info("index synchronized again")
			}
		case !failing:
			s.service.log.Warn("index not synchronized", "error", err)
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

func shuffle(n int, swap func(i, j int)) { rand.Shuffle(n, swap) }

// search returns the options of queries for candidates.
func (o Options) search() search {
	return search{RandomizeCandidates: o.RandomizeCandidates, BreadthFirst: o.BreadthFirst, MaxCandidates: o.MaxCandidates}
}

// declare returns the API for package edge.
func (s *Server) declare() edge.API[*call] {
	o := s.opts.Options
	o.Now, o.Metrics = func() time.Time { return s.service.now() }, s.service.metrics.Metrics
	return edge.API[*call]{
		Options: o, Bodies: s.service.bodyBudget, Database: s.database,
		IDHeaders: []string{"Openstack-Request-Id", "X-Openstack-Request-Id"},
		Routes:    s.routes(), Checks: checks(), Refuse: (*call).refuse, Encode: (*call).encode,
		NewCall: func() *call { return &call{server: s.service, reads: s.service.index.Reads()} },
		Health:  edge.Health{Check: s.checkHealth, Describe: s.describeHealth},
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.edge.ServeHTTP(w, r) }

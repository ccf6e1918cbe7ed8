// Package server is Placement's HTTP API: the handlers, and the live index that candidates are found in.
//
//	request ─▶ ServeHTTP: id, limits, who asks, microversion, route ─▶ handler ─┬─▶ store   (every read and write but one)
//	                                                                            └─▶ index   (candidates)
//	                                          a write's trees ◀── store ────────────┘ ▲
//	                                                  └── read again, replaced ───────┘ before the write is answered
//
// SQL decides, the index suggests. What differs between microversions stands in since.go and in the route table.
//
// Statuses, bodies, codes and headers are those of OpenStack's own Placement. On purpose it differs in this:
//   - The sentences of errors are its own, and errors are JSON whatever the client would rather have.
//   - Vary is sent with every answer that has a microversion. The original leaves it out of some errors.
//   - Allow is also sent when a method is not there yet at the microversion asked for.
//   - PUT /resource_providers/{uuid} has Last-Modified also at the first change of a provider.
//   - A claim that is refused leaves nothing behind. In the original the consumer may stay, with generation 0.
//   - Amounts are added once when the unsuffixed group and a suffixed one take from one inventory and no policy is given.
//   - Names do not end in a newline, and what half of a surrogate pair stands for is refused.
//   - /healthz, /metrics and /berth/v1/explain are there, the first two for everybody.
//   - The number of request groups, the length of the request line and the size of bodies have limits.
package server

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/metrics"
	"github.com/openberth/berth/placement/store"
)

// MaxHeader is how large the header of a request may be, in bytes: for http.Server's MaxHeaderBytes. The server itself
// refuses a request line that is longer.
const MaxHeader = 64 << 10

// largestBody bounds a request: the JSON of one takes about thirty times its length in memory while it is judged. A
// reshape of thousands of providers fits.
const defaultMaxBody = 8 << 20

// Options are what the server may be told. The zero value is complete but for Auth. Two more options of [placement] are the store's:
// Store.ClaimAttempts, and Store.IncompleteProject and IncompleteUser.
type Options struct {
	Auth      identity.Authenticator // who is asking; nil lets nobody in but to the version document
	Challenge string                 // the WWW-Authenticate header of an answer 401, for Keystone; empty: none
	Enforcer    Enforcer                 // who may do what; nil: administrators and services all, readers the usages of their project
	CORS      cors.Options           // [cors]; without an AllowedOrigin there is none
	Log       *slog.Logger           // nil: slog.Default()
	Metrics   *metrics.Set           // nil: a set of its own

	RandomizeCandidates bool // [placement] randomize_allocation_candidates: the order of candidates, and what a limit leaves, is left to chance
	BreadthFirst        bool // [placement] allocation_candidates_generation_strategy = breadth-first: a candidate from each host in turn
	MaxCandidates       int  // [placement] max_allocation_candidates: how many are found for one answer at most; 0 and less: all. (The original takes 0 for 1.)

	RefreshInterval time.Duration // [berth] index_refresh_interval: how often Run looks for what others wrote to the database; 0: 1 s

	ProxyHeaders bool // [oslo_middleware] enable_proxy_headers_parsing: X-Forwarded-… and Forwarded are believed

	MaxBody     int64         // the largest request body in bytes; 0: 8 MiB
	MaxIndexAge time.Duration // /healthz says 503 when the index is older; 0: it may be of any age, nobody else writes
}

// Server is the API's http.Handler. It is safe for concurrent use.
type Server struct {
	store     *store.Store
	available func() error // the store's
	opts      Options
	log       *slog.Logger
	bodies    *api.Bodies
	routes    []route
	index     *liveIndex
	names     *nameCache

	syncer *syncer // Run's

	cors    *cors.Handler
	metrics *metrics.Set
	scrape  http.Handler // /metrics
	health  health
	verifiedAt   atomic.Pointer[time.Time] // when the index was last read whole, or found to be right
	buffers sync.Pool                 // of *wire: for the parts of large answers
	summaries    summaryCache

	searches limiter            // as many as may be under way
	streams    limiter            // as many as may be sent in parts
	bodyBudget   *rest.BodyBudget // of large bodies

	now     func() time.Time
	newID   func() string // the UUID of a provider that was made without one
	shuffle func(int, func(i, j int))
	pick    func(n int) int // a number from 0 to n-1, by chance
}

// New makes a server on a store whose schema is in place, and reads the whole database into the index.
func New(ctx context.Context, s *store.Store, opts Options) (*Server, error) {
	bodies, err := api.NewBodies()
	if err != nil {
		return nil, err
	}
	if opts.Auth == nil {
		opts.Auth = denyAll
	}
	if opts.Enforcer == nil {
		opts.Enforcer = defaultEnforcer{}
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Metrics == nil {
		opts.Metrics = metrics.New()
	}
	if opts.RefreshInterval <= 0 {
		opts.RefreshInterval = defaultRefreshInterval
	}
	if opts.MaxBody <= 0 {
		opts.MaxBody = defaultMaxBody
	}
	srv := &Server{
		store: s, available: s.Available, opts: opts, log: opts.Log, bodies: bodies, routes: routes(),
		index: newLiveIndex(s), names: newNameCache(s),
		cors: cors.New(opts.CORS), metrics: opts.Metrics, scrape: opts.Metrics.Handler(),
		now: time.Now, newID: uuid.NewString, shuffle: shuffle, pick: rand.IntN,
		searches: newSearchLimiter(), streams: make(limiter, maxStreams),
		bodyBudget: rest.NewBodyBudget(maxLargeBodies*opts.MaxBody, opts.MaxBody),
	}
	if s.Watch == nil {
		s.Watch = func(r store.Run) { opts.Metrics.Transaction(r.Op, r.Attempts, r.Took, r.Err) }
	}
	if srv.syncer, err = newSyncer(ctx, s, srv.index, srv.names); err != nil {
		return nil, fault.Wrap("", "placement.server.New", err)
	}
	if err := srv.Reload(ctx); err != nil {
		return nil, fault.Wrap("", "placement.server.New", err)
	}
	srv.metrics.WatchIndex(srv.indexState)
	return srv, nil
}

// Reload reads the whole database into the index. Run finds out by itself what to read again.
func (s *Server) Reload(ctx context.Context) error {
	began := s.now()
	err := s.index.reload(ctx)
	if err == nil {
		s.verifiedAt.Store(&began)
	}
	return err
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serveInternal(w, r) {
		return
	}
	c := &call{server: s, w: w, r: r, id: "req-" + uuid.NewString(), began: s.now(), reads: s.index.reads.Load()}
	if s.opts.ProxyHeaders {
		c.r, c.scheme, c.prefix = forwarded(r)
	}
	defer c.close()
	defer s.metrics.Begin()()
	defer c.report()
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.metrics.Panic()
			s.log.Error("a handler panicked", "request_id", c.id, "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
			c.fail(fault.New(fault.Internal, "placement.server", "unexpected"), true)
		}
	}()
	s.log.Debug("request begins", "request_id", c.id, "method", r.Method, "uri", clip(r.URL.RequestURI()), "from", c.r.RemoteAddr)
	if err := s.serve(c); err != nil {
		c.fail(err, false)
	}
}

// serve takes a request through everything that comes before its handler, in the order of the original.
func (s *Server) serve(c *call) error {
	if len(c.r.URL.RequestURI()) > MaxHeader {
		return newStatusError(http.StatusRequestURITooLong, "the request line is over %d bytes", MaxHeader)
	}
	if err := s.available(); err != nil {
		return err
	}
	path := c.r.URL.Path
	if path != "/" && path != "" {
		caller, err := s.opts.Auth(c.r)
		if err != nil {
			return c.unauthorized(err)
		}
		c.caller = caller
	}
	version, err := api.RequestVersion(c.r.Header)
	if err != nil {
		return c.badVersion(err)
	}
	c.version, c.negotiated = version, true
	if c.r.ContentLength > 0 && c.r.Header.Get("Content-Type") == "" {
		return newStatusError(http.StatusBadRequest, "content-type header required when content-length > 0")
	}
	found, values := s.match(path)
	if found == nil {
		return newStatusError(http.StatusNotFound, "The resource could not be found.")
	}
	c.route, c.values = found, values
	v, ok := found.verbs[c.r.Method]
	if !ok {
		return notAllowed(c, found)
	}
	if err := v.admit(c, found); err != nil {
		return err
	}
	return v.handle(c)
}

// match finds the route of a path, and the values of its variables.
func (s *Server) match(path string) (*route, map[string]string) {
	parts := strings.Split(path, "/")
	for i := range s.routes {
		if values, ok := s.routes[i].match(parts); ok {
			return &s.routes[i], values
		}
	}
	return nil, nil
}

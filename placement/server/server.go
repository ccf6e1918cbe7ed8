// Package server implements the Placement HTTP API: the handlers, and the in-memory index that finds candidates.
//
//	request ─▶ ServeHTTP: id, limits, caller, microversion, route ─▶ handler ─┬─▶ store   (all reads and writes
//	                                                                          │            except candidates)
//	                                                                          └─▶ index   (candidates)
//	                                          trees of a write ◀── store ─────┘ ▲
//	                                                  └── read again, replaced ─┘ before the write is answered
//
// The database decides whether a claim is granted; the index only proposes candidates. The differences between
// microversions are in microversions.go and in the route table.
//
// Statuses, bodies, codes and headers are those of OpenStack's own Placement. The intended differences are:
//   - Error texts are Berth's own. Errors are always JSON, whatever the Accept header of the request.
//   - Vary is sent with every answer that has a microversion. The original omits it from some errors.
//   - Allow is also sent if a method does not exist yet at the requested microversion.
//   - PUT /resource_providers/{uuid} has Last-Modified also at the first change of a provider.
//   - A refused claim leaves nothing behind. In the original the consumer may remain, with generation 0.
//   - Amounts are added once if the unsuffixed group and a suffixed one use one inventory and no group policy is given.
//   - Names do not end in a newline, and an unpaired surrogate is refused.
//   - /healthz, /metrics and /berth/v1/explain exist; the first two need no authentication.
//   - The number of request groups, the length of the request line and the size of bodies are limited.
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

// MaxHeader is the maximum size of a request header in bytes, for http.Server's MaxHeaderBytes. The server itself
// refuses a request line that is longer.
const MaxHeader = 64 << 10

// defaultMaxBody is the default limit of a request body in bytes. Validating a JSON body takes about thirty times its
// length in memory. A reshape of thousands of providers fits into the limit.
const defaultMaxBody = 8 << 20

// Options configures a Server. Only Auth has no useful zero value. Further options of [placement] belong to the store:
// Store.ClaimAttempts, Store.IncompleteProject and Store.IncompleteUser.
type Options struct {
	Auth      identity.Authenticator // identifies the caller; nil: only the version document is served
	Challenge string                 // the WWW-Authenticate header of a 401 answer, for Keystone; empty: none
	Enforcer  Enforcer               // the access policy; nil: defaultEnforcer
	CORS      cors.Options           // [cors]; without AllowedOrigin no CORS headers are sent
	Log       *slog.Logger           // nil: slog.Default()
	Metrics   *metrics.Set           // nil: a new set

	// RandomizeCandidates is [placement] randomize_allocation_candidates: the candidates are in random order, and a
	// limit selects a random sample.
	RandomizeCandidates bool

	// BreadthFirst is [placement] allocation_candidates_generation_strategy = breadth-first: one candidate from each
	// host in turn.
	BreadthFirst bool

	// MaxCandidates is [placement] max_allocation_candidates: the maximum number of candidates in one answer. 0 and
	// less mean no limit; the original treats 0 as 1.
	MaxCandidates int

	// RefreshInterval is [berth] index_refresh_interval: how often Run polls the database for writes of other
	// processes. 0 means 1 s.
	RefreshInterval time.Duration

	// ProxyHeaders is [oslo_middleware] enable_proxy_headers_parsing: X-Forwarded-… and Forwarded are trusted.
	ProxyHeaders bool

	MaxBody     int64         // the maximum size of a request body in bytes; 0: 8 MiB
	MaxIndexAge time.Duration // /healthz answers 503 if the index is older; 0: the age is not checked
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

	syncer *syncer // used by Run only

	cors       *cors.Handler
	metrics    *metrics.Set
	scrape     http.Handler // /metrics
	health     health
	verifiedAt atomic.Pointer[time.Time] // when the index was last known to match the database
	buffers    sync.Pool                 // of *jsonBuffer, for the chunks of large answers
	summaries  summaryCache

	searches   limiter          // bounds the searches that run at one time
	streams    limiter          // bounds the answers that are sent in chunks at one time
	bodyBudget *rest.BodyBudget // bounds the memory of large request bodies

	now     func() time.Time
	newID   func() string // returns the UUID of a provider that is created without one
	shuffle func(int, func(i, j int))
	pick    func(n int) int // returns a random number from 0 to n-1
}

// New returns a server on a store whose schema exists. It reads the whole database into the index.
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

// Reload reads the whole database into the index. Run does not need it: it detects by itself which trees have changed.
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
			s.log.Error("handler panicked", "request_id", c.id, "method", r.Method, "path", r.URL.Path, "panic", p,
				"stack", string(debug.Stack()))
			c.fail(fault.New(fault.Internal, "placement.server", "unexpected"), true)
		}
	}()
	s.log.Debug("request received", "request_id", c.id, "method", r.Method, "uri", clip(r.URL.RequestURI()),
		"from", c.r.RemoteAddr)
	if err := s.serve(c); err != nil {
		c.fail(err, false)
	}
}

// serve checks a request and calls its handler. It makes the checks in the same order as the original, so that a
// request with several faults gets the same status.
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

// match returns the route of a path and the values of its variables; nil if there is no route.
func (s *Server) match(path string) (*route, map[string]string) {
	parts := strings.Split(path, "/")
	for i := range s.routes {
		if values, ok := s.routes[i].match(parts); ok {
			return &s.routes[i], values
		}
	}
	return nil, nil
}

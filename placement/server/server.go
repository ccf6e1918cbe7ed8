// Package server implements the Placement HTTP API: the handlers, and the in-memory index that finds candidates.
//
//	request ─▶ ServeHTTP: id, limits, caller, microversion, route ─▶ handler ─┬─▶ store   (all reads and writes
//	                                                                          │            except candidates)
//	                                                                          └─▶ index   (candidates)
//	                                          trees of a write ◀── store ─────┘ ▲
//	                                                  └── read again, replaced ─┘ before the write is answered
//
// The database decides whether a claim is granted; the index only proposes candidates. The differences between
// microversions are in changes_by_microversion.go and in the route table.
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
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/cors"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/metrics"
	"github.com/openberth/berth/placement/store"
)

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

// Run updates the index with the writes of other processes to the database, until ctx ends. Without Run the index
// contains only the writes of this server. A write of another process is in the index after Options.RefreshInterval and
// the time of one poll, which is a fraction of a second for ten thousand hosts. While the database does not answer, the
// index becomes older, which /healthz and /metrics report. Call Run once.
func (s *Server) Run(ctx context.Context) {
	ticks := time.NewTicker(s.opts.RefreshInterval)
	defer ticks.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		began := s.now()
		err := s.syncer.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.verifiedAt.Store(&began)
			if failing {
				s.log.Info("index synchronized again")
			}
		case !failing:
			s.log.Warn("index not synchronized", "error", err)
		}
		failing = err != nil
	}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serveInternal(w, r) {
		return
	}
	c := &call{server: s, w: w, r: r, id: "req-" + uuid.NewString(), began: s.now(), reads: s.index.reads.Load(),
		inProcess: rest.InProcess(r)}
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

// close releases the resources of the call.
func (c *call) close() {
	c.release()
	for _, done := range c.cleanups {
		done()
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

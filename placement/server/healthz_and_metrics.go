package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/metrics"
)

const (
	healthTimeout   = 2 * time.Second // the time limit of the database's answer
	healthCacheTime = time.Second     // how long a result is reused, because /healthz needs no authentication
)

// serveInternal answers /healthz and /metrics, which need no authentication. It returns false for other paths.
func (s *Server) serveInternal(w http.ResponseWriter, r *http.Request) bool {
	var answer http.HandlerFunc
	switch r.URL.Path {
	case "/healthz":
		answer = s.healthz
	case "/metrics":
		answer = s.scrape.ServeHTTP
	default:
		return false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return true
	}
	answer(w, r)
	return true
}

// healthDoc is the body of /healthz.
type healthDoc struct {
	Status string `json:"status"` // ok or unavailable
	Reason string `json:"reason,omitempty"`
	Index  struct {
		Trees     int `json:"trees"`
		Providers int `json:"providers"`
		Age       int `json:"age_seconds"`
	} `json:"index"`
}

// healthz answers 200 if clients can use this server: the database answers and accepts writes, and the index is not
// older than Options.MaxIndexAge. Otherwise it answers 503.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	reason, state := s.unhealthy(r.Context()), s.indexState()
	answer := healthDoc{Status: "ok", Reason: reason}
	answer.Index.Trees, answer.Index.Providers, answer.Index.Age = state.Trees, state.Providers, int(state.Age.Seconds())
	status := http.StatusOK
	if reason != "" {
		answer.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	data, err := json.Marshal(answer)
	if err != nil { // does not occur: strings and numbers can always be encoded
		status, data = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// unhealthy returns why clients cannot use this server; empty if they can. Concurrent callers share one check.
func (s *Server) unhealthy(ctx context.Context) string {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := s.now(); h.checkedAt.IsZero() || now.Sub(h.checkedAt) >= healthCacheTime {
		reason, cause := s.check(ctx)
		if reason != h.reason {
			s.log.Warn("health changed", "before", h.reason, "now", reason, "cause", cause)
		}
		h.checkedAt, h.reason = s.now(), reason
	}
	return h.reason
}

// check makes a health check. It returns the reason to publish, empty if the server is healthy, and its cause for the
// log.
func (s *Server) check(ctx context.Context) (reason string, cause error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
	defer cancel()
	began := time.Now()
	if err := s.available(); err != nil {
		return "The database's file was deleted, moved or replaced; the service stops.", err
	}
	if _, err := s.store.Version(ctx); err != nil {
		return "The database does not answer.", err
	}
	if err := s.store.CheckWrites(healthTimeout - time.Since(began)); err != nil {
		return "The database takes no writes: " + fault.TextOf(err) + ".", errors.Unwrap(err)
	}
	if state := s.indexState(); s.opts.MaxIndexAge > 0 && state.Age > s.opts.MaxIndexAge {
		return fmt.Sprintf("The index is %s old, more than the limit of %s.", state.Age.Round(time.Second),
			s.opts.MaxIndexAge), nil
	}
	return "", nil
}

// indexState returns the current state of the index for the metrics.
func (s *Server) indexState() metrics.Index {
	snapshot := s.index.current()
	return metrics.Index{Trees: snapshot.Len(), Providers: snapshot.Providers(), Age: s.now().Sub(*s.verifiedAt.Load()),
		Lag: s.index.lag()}
}

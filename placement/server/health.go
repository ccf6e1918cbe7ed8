package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/metrics"
)

const (
	healthTimeout   = 2 * time.Second // how long the database may take to answer
	healthCacheTime = time.Second     // how long an answer about health is repeated: nobody knows who asks
)

// health is the last answer about health.
type health struct {
	mu        sync.Mutex
	checkedAt time.Time
	reason    string // a sentence; empty: all is well
}

// serveInternal answers what is no part of Placement's API: /healthz and /metrics, without asking who wants to know.
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

// healthz says whether this server should be asked: the database answers and takes writes, and the index is young
// enough.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	sick, state := s.unhealthy(r.Context()), s.indexState()
	said := healthDoc{Status: "ok", Reason: sick}
	said.Index.Trees, said.Index.Providers, said.Index.Age = state.Trees, state.Providers, int(state.Age.Seconds())
	status := http.StatusOK
	if sick != "" {
		said.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	data, err := json.Marshal(said)
	if err != nil { // texts and numbers are always written
		status, data = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// unhealthy is the sentence that says why this server should not be asked; empty when it should. Those who ask at the same time
// share one look.
func (s *Server) unhealthy(ctx context.Context) string {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := s.now(); h.checkedAt.IsZero() || now.Sub(h.checkedAt) >= healthCacheTime {
		sick, cause := s.check(ctx)
		if sick != h.reason {
			s.log.Warn("health has changed", "before", h.reason, "now", sick, "cause", cause)
		}
		h.checkedAt, h.reason = s.now(), sick
	}
	return h.reason
}

// check returns a sentence for everybody, and the error behind it for the log.
func (s *Server) check(ctx context.Context) (sick string, cause error) {
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
		return fmt.Sprintf("The index is %s old, more than the %s that it may be.", state.Age.Round(time.Second),
			s.opts.MaxIndexAge), nil
	}
	return "", nil
}

// indexState is the state of the index now.
func (s *Server) indexState() metrics.Index {
	snapshot := s.index.current()
	return metrics.Index{Trees: snapshot.Len(), Providers: snapshot.Providers(), Age: s.now().Sub(*s.verifiedAt.Load()), Lag: s.index.lag()}
}

package server

import (
	"errors"
	"net/http"
	"time"

	"github.com/openberth/berth/fault"
)

const (
	healthTime = 2 * time.Second // how long a write may take
	healthAge  = time.Second     // how long a result is reused, so that frequent requests cost little
)

// healthz is GET /healthz, without a token: 200 if the database accepts writes; otherwise 503 with the reason.
func (s *server) healthz(c *call) error {
	c.W.Header().Set("Cache-Control", "no-store")
	body := map[string]string{"status": "ok"}
	if reason := s.unhealthy(); reason != "" {
		body["status"], body["reason"] = "unavailable", reason
		return c.writeJSON(http.StatusServiceUnavailable, body)
	}
	return c.writeJSON(http.StatusOK, body)
}

// unhealthy returns why requests fail now, as a sentence; empty if they do not. Concurrent requests share one check.
func (s *server) unhealthy() string {
	h := &s.health
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := s.Now(); h.at.IsZero() || now.Sub(h.at) >= healthAge {
		reason, cause := s.checkHealth()
		if reason != h.reason {
			s.Log.Warn("health changed", "before", h.reason, "now", reason, "cause", cause)
		}
		h.at, h.reason = s.Now(), reason
	}
	return h.reason
}

// checkHealth returns a sentence for clients, and its cause for the log.
func (s *server) checkHealth() (reason string, cause error) {
	if err := s.Store.Available(); err != nil {
		return "The database's file was deleted, moved or replaced; the service stops.", err
	}
	if err := s.Store.CheckWrites(healthTime); err != nil {
		return "The database takes no writes: " + fault.TextOf(err) + ".", errors.Unwrap(err)
	}
	return "", nil
}

// healthPath is the one path that is answered also after the database has lost its file.
const healthPath = "/healthz"

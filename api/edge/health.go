package edge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
)

const (
	// HealthTimeout is the time limit of a health check.
	HealthTimeout = 2 * time.Second

	// HealthAge is how long the result of a health check is reused, because /healthz needs no authentication.
	HealthAge = time.Second
)

// Health declares how /healthz determines whether clients can use the service.
type Health struct {
	// Check returns why they cannot, as a sentence, and the cause for the log; empty: they can. nil: they always can.
	Check func(context.Context) (reason string, cause error)

	// Describe returns the body of the answer for the status that it includes; nil: the status alone.
	Describe func(HealthDoc) any
}

// HealthDoc is the body of /healthz, or a part of it.
type HealthDoc struct {
	Status string `json:"status"` // ok or unavailable
	Reason string `json:"reason,omitempty"`
}

// Database is the database of a service, whose stores have these methods.
type Database interface {
	Available() error                         // returns fault.Unavailable after the database's file was lost
	CheckWrites(patience time.Duration) error // its text completes "The database takes no writes:"
}

// CheckDatabase is Health.Check for a database. read reads from it; nil: reading is not checked.
func CheckDatabase(ctx context.Context, db Database, read func(context.Context) error) (reason string, cause error) {
	if err := db.Available(); err != nil {
		return "The database's file was deleted, moved or replaced; the service stops.", err
	}
	if read != nil {
		if err := read(ctx); err != nil {
			return "The database does not answer.", err
		}
	}
	patience := HealthTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	if err := db.CheckWrites(patience); err != nil {
		return "The database takes no writes: " + fault.TextOf(err) + ".", errors.Unwrap(err)
	}
	return "", nil
}

// health answers /healthz. It keeps the result of the last check.
type health struct {
	Health
	log *slog.Logger
	now func() time.Time

	mu        sync.Mutex
	checkedAt time.Time
	reason    string
}

// answer answers 200 if clients can use the service, otherwise 503.
func (h *health) answer(w http.ResponseWriter, r *http.Request) {
	doc, status := HealthDoc{Status: "ok", Reason: h.unhealthy(r.Context())}, http.StatusOK
	if doc.Reason != "" {
		doc.Status, status = "unavailable", http.StatusServiceUnavailable
	}
	var body any = doc
	if h.Describe != nil {
		body = h.Describe(doc)
	}
	data, err := json.Marshal(body)
	if err != nil { // does not occur: an API describes itself with strings and numbers
		status, data = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", JSON)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(data)
}

// unhealthy returns why clients cannot use the service; empty if they can. Concurrent callers share one check.
func (h *health) unhealthy(ctx context.Context) string {
	if h.Check == nil {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if now := h.now(); h.checkedAt.IsZero() || now.Sub(h.checkedAt) >= HealthAge {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), HealthTimeout)
		defer cancel()
		reason, cause := h.Check(ctx)
		if reason != h.reason {
			h.log.Warn("health changed", "before", h.reason, "now", reason, "cause", cause)
		}
		h.checkedAt, h.reason = h.now(), reason
	}
	return h.reason
}

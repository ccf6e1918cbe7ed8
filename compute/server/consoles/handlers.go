// Package consoles holds the consoles of guests: their output, and interactive sessions. Users ask, and agents, which
// get the requests with their assignments, answer. Nothing is stored.
package consoles

import (
	"context"
	"log/slog"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
)

// Store is what the handlers need of the database.
type Store interface {
	Read(ctx context.Context, id string) (lifecycle.Server, error)
}

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	*request.Lookups
	Requests  Requests
	Tokens    Tokens
	Pages     Pages
	Store     Store
	Now       func() time.Time
	Log       *slog.Logger
	Heartbeat time.Duration   // the longest silence on a stream
	Stop      <-chan struct{} // closed at shutdown, to end the streams; nil: never
}

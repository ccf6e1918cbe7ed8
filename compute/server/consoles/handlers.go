// Package consoles holds the consoles of guests: their output, and interactive sessions. Users ask, and agents, which
// get the requests with their assignments, answer. Nothing is stored.
package consoles

import (
	"log/slog"
	"time"

	"github.com/openberth/berth/compute/server/request"
)

// Handlers are the handlers of the package, and what they need.
type Handlers struct {
	*request.Lookups
	Requests  Requests
	Log       *slog.Logger
	Heartbeat time.Duration   // the longest silence on a stream
	Stop      <-chan struct{} // closed at shutdown, to end the streams; nil: never
}

package server

import (
	"context"
	"errors"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// checkHealth returns a sentence for clients, and its cause for the log.
func (s *server) checkHealth(ctx context.Context) (reason string, cause error) {
	if err := s.store.Available(); err != nil {
		return "The database's file was deleted, moved or replaced; the service stops.", err
	}
	patience := edge.HealthTimeout
	if deadline, ok := ctx.Deadline(); ok {
		patience = time.Until(deadline)
	}
	if err := s.store.CheckWrites(patience); err != nil {
		return "The database takes no writes: " + fault.TextOf(err) + ".", errors.Unwrap(err)
	}
	return "", nil
}

package operations

import (
	"log/slog"
	"time"

	"github.com/openberth/berth/network/store"
)

// New returns a service with defaults for everything but the store and Placement.
func New(st *store.Store, p Placement) *Service {
	return &Service{Store: st, Placement: p, Segments: DefaultSegmentRanges(), Quotas: DefaultQuotas(),
		Log: slog.Default(), Now: time.Now, recorded: make(chan struct{}, 1),
		agents: newLiveness(time.Now()), answers: &hostAnswers{}}
}

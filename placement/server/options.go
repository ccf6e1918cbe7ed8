package server

import (
	"sync/atomic"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/placement/events"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/metrics"
	"github.com/openberth/berth/placement/server/request"
)

// Options configures a Server. Further options of [placement] belong to the store: Store.ClaimAttempts,
// Store.IncompleteProject and Store.IncompleteUser.
type Options struct {
	edge.Options
	Metrics *metrics.Set // nil: a new set

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

	// KeepHistory is [berth] usage_history: Run records each minute what is used. The store must have its tables.
	KeepHistory bool

	MaxBody     int64         // the maximum size of a request body in bytes; 0: 8 MiB
	MaxIndexAge time.Duration // /healthz answers 503 if the index is older; 0: the age is not checked
}

// Server is the API's http.Handler. It is safe for concurrent use.
type Server struct {
	service  *request.Service
	opts     Options
	database edge.Database // the store
	edge     *edge.Server[*request.Call]

	changes *events.Source
	feed    *eventstream.Feed // of changes
	following

	verifiedAt atomic.Pointer[time.Time] // when the index was last known to match the database
}

// following is how writes of other processes are found.
type following struct {
	syncer        *liveindex.Syncer // used by Run only
	polls         chan chan<- error // polls that Synchronize requests from Run; their results
	announcements *announcements    // nil: the database passes none
}

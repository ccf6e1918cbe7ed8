package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/eventstream"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/placement/events"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/metrics"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
)

// defaultMaxBody is the default limit of a request body in bytes. Validating a JSON body takes about thirty times its
// length in memory. A reshape of thousands of providers fits into the limit.
const defaultMaxBody = 8 << 20

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
	store    *store.Store
	database edge.Database // the store
	opts     Options
	bodies   *api.Bodies
	edge     *edge.Server[*call]
	index    *liveindex.Index
	names    *liveindex.Names

	changes *events.Source
	feed    *eventstream.Feed // of changes
	following

	metrics    *metrics.Set
	verifiedAt atomic.Pointer[time.Time] // when the index was last known to match the database
	buffers    sync.Pool                 // of *jsonBuffer, for the chunks of large answers
	summaries  liveindex.Summaries

	bounds

	now     func() time.Time
	newID   func() string // returns the UUID of a provider that is created without one
	shuffle func(int, func(i, j int))
	pick    func(n int) int // returns a random number from 0 to n-1
}

// following is how writes of other processes are found.
type following struct {
	syncer        *liveindex.Syncer // used by Run only
	polls         chan chan<- error // polls that Synchronize requests from Run; their results
	announcements *announcements    // nil: the database passes none
}

// bounds bound what all requests use together.
type bounds struct {
	searches   limiter          // the searches that run at one time
	turns      *fairQueue       // of the searches that take long
	counts     limiter          // the counts of headroom that run at one time
	streams    limiter          // the answers that are sent in chunks at one time
	bodyBudget *rest.BodyBudget // the memory of large request bodies
}

// call is the state of one request.
type call struct {
	edge.Call
	server    *Server
	reads     uint64 // liveindex.Index.Reads when the call began
	version   api.Version
	body      []byte // the request body, after read
	holdsSlot bool   // the call holds a slot of Server.searches, or a turn
	streams   bool   // the call counts among Server.streams
	inTurns   bool   // its search takes long: it has turns of Server.turns
	turnBegan time.Time
}

// object is a JSON object whose members depend on the microversion.
type object = map[string]any

// provider returns the UUID of the provider in the path.
func (c *call) provider() provider.ID { return provider.ID(c.R.PathValue("uuid")) }

// The microversions that changed answers or the meaning of requests. The microversions of query parameters and body
// members are in api/placement, those of methods in the route table.
const (
	sinceAggregatesLink    api.Version = 1
	sinceTraitsLink        api.Version = 6
	sinceAllocationsLink   api.Version = 11
	sinceAllocationOwner   api.Version = 12 // GET /allocations/{consumer} has the owner; candidates are objects
	sinceNesting           api.Version = 14 // providers have a parent and a root
	sinceCacheHeaders      api.Version = 15 // last-modified and cache-control
	sinceSummaryTraits     api.Version = 17
	sinceAggregateGuard    api.Version = 19 // aggregates have a generation, in requests and answers
	sinceCreatedBody       api.Version = 20 // POST /resource_providers answers 200 with the provider
	sinceErrorCodes        api.Version = 23
	sinceFullReserve       api.Version = 26 // reserved may equal total
	sinceSummaryAll        api.Version = 27 // summaries include classes that were not requested
	sinceConsumerGuard     api.Version = 28 // consumers have a generation
	sinceNestedCandidates  api.Version = 29 // candidates may use providers that are not roots
	sinceMappings          api.Version = 34
	sinceReparenting       api.Version = 37
	sinceConsumerTypes     api.Version = 38
	lastClassRename        api.Version = 6 // PUT /resource_classes/{name} renames; afterwards it creates the class
	lastListShapedAllocate api.Version = 11
)

package request

import (
	"log/slog"
	"sync"
	"time"

	"github.com/openberth/berth/api/edge"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/liveindex"
	"github.com/openberth/berth/placement/metrics"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
)

// Service is what the handlers need.
type Service struct {
	Store   *store.Store
	Index   *liveindex.Index
	Names   *liveindex.Names
	Bodies  *api.Bodies
	Metrics *metrics.Set
	Log     *slog.Logger

	Challenge string // of edge.Options
	MaxBody   int64  // the maximum size of a request body in bytes
	Search    Search

	Changed  func(roots ...provider.ID) // reports trees that have changed to those who watch the events
	Announce func(roots []provider.ID)  // announces changed trees to other processes

	Buffers   sync.Pool // of *Buffer, for the chunks of large answers
	Summaries liveindex.Summaries
	Bounds

	Now     func() time.Time
	NewID   func() string // returns the UUID of a provider that is created without one
	Shuffle func(int, func(i, j int))
	Pick    func(n int) int // returns a random number from 0 to n-1
}

// Search are the options of queries for candidates, as in Options of package server.
type Search struct {
	RandomizeCandidates bool
	BreadthFirst        bool
	MaxCandidates       int
}

// Call is the state of one request.
type Call struct {
	edge.Call
	Service      *Service
	Reads        uint64 // liveindex.Index.Reads when the call began
	Microversion api.Version
	Body         []byte // the request body, after Read
	holdsSlot    bool   // the call holds a slot of Bounds.Searches, or a turn
	streams      bool   // the call counts among Bounds.Streams
	inTurns      bool   // its search takes long: it has turns of Bounds.Turns
	turnBegan    time.Time
}

// Object is a JSON object whose members depend on the microversion.
type Object = map[string]any

// Provider returns the UUID of the provider in the path.
func (c *Call) Provider() provider.ID { return provider.ID(c.R.PathValue("uuid")) }

// The microversions that changed answers or the meaning of requests. The microversions of query parameters and body
// members are in api/placement, those of methods in the route table.
const (
	SinceAggregatesLink    api.Version = 1
	SinceTraitsLink        api.Version = 6
	SinceAllocationsLink   api.Version = 11
	SinceAllocationOwner   api.Version = 12 // GET /allocations/{consumer} has the owner; candidates are objects
	SinceNesting           api.Version = 14 // providers have a parent and a root
	sinceCacheHeaders      api.Version = 15 // last-modified and cache-control
	SinceSummaryTraits     api.Version = 17
	SinceAggregateGuard    api.Version = 19 // aggregates have a generation, in requests and answers
	SinceCreatedBody       api.Version = 20 // POST /resource_providers answers 200 with the provider
	sinceErrorCodes        api.Version = 23
	SinceFullReserve       api.Version = 26 // reserved may equal total
	SinceSummaryAll        api.Version = 27 // summaries include classes that were not requested
	SinceConsumerGuard     api.Version = 28 // consumers have a generation
	SinceNestedCandidates  api.Version = 29 // candidates may use providers that are not roots
	SinceMappings          api.Version = 34
	SinceReparenting       api.Version = 37
	SinceConsumerTypes     api.Version = 38
	LastClassRename        api.Version = 6 // PUT /resource_classes/{name} renames; afterwards it creates the class
	LastListShapedAllocate api.Version = 11
)

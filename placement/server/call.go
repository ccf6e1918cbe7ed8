package server

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

// sharedService is what the handlers need.
type sharedService struct {
	store   *store.Store
	index   *liveindex.Index
	names   *liveindex.Names
	bodies  *api.Bodies
	metrics *metrics.Set
	log     *slog.Logger

	challenge string // Options.Challenge of package edge
	maxBody   int64  // the maximum size of a request body in bytes
	search    search

	changed  func(roots ...provider.ID) // reports trees that have changed to those who watch the events
	announce func(roots []provider.ID)  // announces changed trees to other processes

	buffers   sync.Pool // of *jsonBuffer, for the chunks of large answers
	summaries liveindex.Summaries
	bounds

	now     func() time.Time
	newID   func() string // returns the UUID of a provider that is created without one
	shuffle func(int, func(i, j int))
	pick    func(n int) int // returns a random number from 0 to n-1
}

// search are the options of queries for candidates, as in Options of package server.
type search struct {
	RandomizeCandidates bool
	BreadthFirst        bool
	MaxCandidates       int
}

// call is the state of one request.
type call struct {
	edge.Call
	server    *sharedService
	reads     uint64 // liveindex.Index.Reads when the call began
	version   api.Version
	body      []byte // the request body, after read
	holdsSlot bool   // the call holds a slot of bounds.searches, or a turn
	streams   bool   // the call counts among bounds.streams
	inTurns   bool   // its search takes long: it has turns of bounds.turns
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

package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/placement/metrics"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
)

// MaxHeader is the maximum size of a request header in bytes, for http.Server's MaxHeaderBytes. The server itself
// refuses a request line that is longer.
const MaxHeader = 64 << 10

// defaultMaxBody is the default limit of a request body in bytes. Validating a JSON body takes about thirty times its
// length in memory. A reshape of thousands of providers fits into the limit.
const defaultMaxBody = 8 << 20

// Options configures a Server. Only Auth has no useful zero value. Further options of [placement] belong to the store:
// Store.ClaimAttempts, Store.IncompleteProject and Store.IncompleteUser.
type Options struct {
	Auth      identity.Authenticator // identifies the caller; nil: only the version document is served
	Challenge string                 // the WWW-Authenticate header of a 401 answer, for Keystone; empty: none
	Enforcer  Enforcer               // the access policy; nil: defaultEnforcer
	CORS      cors.Options           // [cors]; without AllowedOrigin no CORS headers are sent
	Log       *slog.Logger           // nil: slog.Default()
	Metrics   *metrics.Set           // nil: a new set

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

	// ProxyHeaders is [oslo_middleware] enable_proxy_headers_parsing: X-Forwarded-… and Forwarded are trusted.
	ProxyHeaders bool

	MaxBody     int64         // the maximum size of a request body in bytes; 0: 8 MiB
	MaxIndexAge time.Duration // /healthz answers 503 if the index is older; 0: the age is not checked
}

// Enforcer checks whether a caller may make a request. rule has the name that OpenStack's Placement uses, such as
// placement:resource_providers:list. target has the attributes that rules may refer to: the project_id and user_id of
// the caller, or for placement:usages the project_id of the query (nil if it has none). why is the reason of a refusal,
// for the log.
type Enforcer interface {
	Allow(rule string, caller identity.Identity, target map[string]any) (ok bool, why string)
}

// health is the result of the last health check.
type health struct {
	mu        sync.Mutex
	checkedAt time.Time
	reason    string // why the server is unhealthy; empty: it is healthy
}

// Server is the API's http.Handler. It is safe for concurrent use.
type Server struct {
	store     *store.Store
	available func() error // the store's
	opts      Options
	log       *slog.Logger
	bodies    *api.Bodies
	routes    []route
	index     *liveIndex
	names     *nameCache

	syncer *syncer // used by Run only

	cors       *cors.Handler
	metrics    *metrics.Set
	scrape     http.Handler // /metrics
	health     health
	verifiedAt atomic.Pointer[time.Time] // when the index was last known to match the database
	buffers    sync.Pool                 // of *jsonBuffer, for the chunks of large answers
	summaries  summaryCache

	searches   limiter          // bounds the searches that run at one time
	streams    limiter          // bounds the answers that are sent in chunks at one time
	bodyBudget *rest.BodyBudget // bounds the memory of large request bodies

	now     func() time.Time
	newID   func() string // returns the UUID of a provider that is created without one
	shuffle func(int, func(i, j int))
	pick    func(n int) int // returns a random number from 0 to n-1
}

// call is the state of one request.
type call struct {
	server     *Server
	w          http.ResponseWriter
	r          *http.Request
	id         string // openstack-request-id
	began      time.Time
	reads      uint64 // liveIndex.reads when the call began
	caller     identity.Identity
	version    api.Version
	negotiated bool              // version was read from the request
	values     map[string]string // of the variables in the path
	route      *route            // nil: there is no route for the path
	body       []byte            // the request body, after read
	status     int               // of the answer; 0: nothing has been sent
	size       int64             // of the answer's body in bytes, so far
	scheme     string            // from a proxy's headers; empty: that of the connection
	prefix     string            // of the API's paths, from a proxy's headers
	holdsSlot  bool              // the call holds a slot of Server.searches
	cleanups   []func()          // called at the end of the call
	inProcess  bool              // sent by another part of this process
	clientGone bool              // the client disconnected, or the server stopped, before the answer was complete
}

// object is a JSON object whose members depend on the microversion.
type object = map[string]any

// route is a path of the API with its methods.
type route struct {
	path     string   // as written in the table; it names the route in logs and metrics
	segments []string // of the path; a segment in braces is a variable
	verbs    map[string]verb
}

// verb is one method of a route.
type verb struct {
	rule         string // the policy rule that is checked; empty: none
	handle       func(*call) error
	since        api.Version
	statusBefore int  // the status before since; 0: 404
	mediaFirst   bool // media types are checked before since
	body         bool // the request body must be JSON
	answer       bool // the answer is JSON; the client must accept it
}

// ctx returns the context of the request. After the answer has begun it has no time limit, because a slow client may
// need any time to receive a large answer.
func (c *call) ctx() context.Context {
	if c.status != 0 {
		return rest.Unlimited(c.r.Context())
	}
	return c.r.Context()
}

// provider returns the UUID of the provider in the path.
func (c *call) provider() provider.ID { return provider.ID(c.values["uuid"]) }

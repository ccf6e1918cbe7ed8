package edge

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/cors"
	"github.com/openberth/berth/api/identity"
	"github.com/openberth/berth/api/rest"
)

// Caller is the call type of an API: a pointer to a struct that embeds Call.
type Caller interface{ edge() *Call }

// Enforcer checks whether a caller may make a request. rule has the name that OpenStack's service uses, such as
// placement:resource_providers:list. target has the attributes that rules may refer to, such as project_id. why is the
// reason of a refusal, for the log.
type Enforcer interface {
	Allow(rule string, caller identity.Identity, target map[string]any) (ok bool, why string)
}

// Call is the state of one request. APIs embed it in their call type.
type Call struct {
	W       http.ResponseWriter
	R       *http.Request
	ID      string            // the request id: req-UUID
	Who     identity.Identity // the caller, after Authenticate
	Spec    Spec              // of the method, if the route has it
	Lenient bool              // unknown keys of bodies are ignored; the API sets it
	Action  string            // the action that the body names, for the audit log; the API sets it
	Version fmt.Stringer      // the version of the API, for the log; the API sets it. nil: none is negotiated

	core       *core
	out        recorder
	uri        string // of the request, before Prepare
	began      time.Time
	proxy      proxyHeaders
	route      *foundRoute // nil: there is none for the path
	hasMethod  bool        // the route has the method
	known      bool        // the caller is authenticated
	clientGone bool        // the client disconnected, or the server stopped, before the answer was complete
	cleanups   []func()
}

// Spec is what the checks read about a method. A check that an API does not make ignores its fields.
type Spec struct {
	Rule         string // the policy rule; empty: none
	Since        int    // the minor version in which the method was added
	StatusBefore int    // the status before Since; 0: that of an unknown path
	MediaFirst   bool   // media types are checked before Since
	Body         bool   // the request body must be JSON
	Answer       bool   // the answer is JSON; the client must accept it
	AnyText      bool   // the body may have any text: what an agent reports of its host
	Quiet        bool   // a request of another service or an agent: logged at debug level if it succeeds
	Secret       bool   // the path has a secret, which neither logs nor traces have
}

// foundRoute is what the checks read about a route.
type foundRoute struct {
	path   string
	public bool
	allow  string // the header Allow
}

// core is what the calls of a server use of it.
type core struct {
	Options
	cors      *cors.Handler
	bodies    *rest.BodyBudget
	style     *Style
	metrics   *Metrics
	database  Database // nil: none
	idHeaders []string
}

// edge implements Caller.
func (c *Call) edge() *Call { return c }

// begin sets the fields of a call for a request that has arrived.
func (c *Call) begin(core *core, w http.ResponseWriter, r *http.Request, trustProxy bool) {
	c.core, c.R, c.ID, c.began, c.uri = core, r, "req-"+uuid.NewString(), core.Now(), r.URL.RequestURI()
	c.out = recorder{ResponseWriter: w, call: c}
	c.W = &c.out
	if trustProxy {
		c.R, c.proxy = forwarded(r)
	}
	c.proxy.prefix += mountOf(r)
}

// Prefix returns the prefix of the API's paths at a proxy and at an address of several APIs: empty, or it begins with a
// slash.
func (c *Call) Prefix() string { return c.proxy.prefix }

// BaseURL returns the URL of the API that the client used, without a slash at the end, and with the prefix. The default
// port of the scheme is left out.
func (c *Call) BaseURL() string { return c.proxy.baseURL(c.R) }

// WriteJSON answers with a status and a JSON body. It returns nil.
func (c *Call) WriteJSON(status int, body any) error {
	rest.WriteJSON(c.W, status, body)
	return nil
}

// WriteStatus answers with a status and no body. It returns nil.
func (c *Call) WriteStatus(status int) error {
	c.W.WriteHeader(status)
	return nil
}

// Done answers with a status and no body, unless there is an error, which it returns.
func (c *Call) Done(status int, err error) error {
	if err != nil {
		return err
	}
	return c.WriteStatus(status)
}

// SetPath replaces the path of the request, for API.Prepare.
func (c *Call) SetPath(path string) {
	c.R = c.R.WithContext(c.R.Context()) // a copy
	u := *c.R.URL
	u.Path, u.RawPath = path, ""
	c.R.URL = &u
}

// AtEnd calls a function at the end of the call, after the answer.
func (c *Call) AtEnd(do func()) { c.cleanups = append(c.cleanups, do) }

// end releases the resources of the call.
func (c *Call) end() {
	for _, do := range c.cleanups {
		do()
	}
}

// Context returns the context of the request. After the answer has begun it has no time limit, because a slow client
// may need any time to receive a large answer.
func (c *Call) Context() context.Context {
	if c.Begun() {
		return rest.Unlimited(c.R.Context())
	}
	return c.R.Context()
}

// Route returns the path of the route as declared; empty if there is none for the path of the request.
func (c *Call) Route() string {
	if c.route == nil {
		return ""
	}
	return c.route.path
}

// Public reports whether the route needs no authentication.
func (c *Call) Public() bool { return c.route != nil && c.route.public }

// Began returns when the request arrived.
func (c *Call) Began() time.Time { return c.began }

// Begun reports whether the answer has begun: its status and headers have been sent.
func (c *Call) Begun() bool { return c.out.status != 0 }

// recorder is the ResponseWriter of a call. It adds the headers that every answer has, and records the status and the
// size.
type recorder struct {
	http.ResponseWriter
	call    *Call
	status  int   // 0: nothing has been sent
	size    int64 // of the body in bytes, so far
	discard bool  // a CORS preflight answer has replaced this one, so no body is sent
}

// WriteHeader sends the status and the headers.
func (w *recorder) WriteHeader(status int) {
	if status < http.StatusOK || w.status != 0 {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	h, core := w.Header(), w.call.core
	status, w.discard = core.cors.Apply(w.call.R, status, h)
	for _, name := range core.idHeaders {
		h.Set(name, w.call.ID)
	}
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write sends the next bytes of the body.
func (w *recorder) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.discard {
		return len(data), nil
	}
	n, err := w.ResponseWriter.Write(data)
	w.size += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

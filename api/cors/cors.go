// Package cors lets browsers use an API from pages of other origins, as oslo.middleware does in OpenStack's services.
//
// A Policy is what the configuration's [cors] says. It decides what an answer becomes; it sends nothing itself, so it stands
// where the server has its answer ready: after authentication has failed, too, since a browser asks with OPTIONS before it sends a
// token.
package cors

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Options are the options of [cors]. OpenStack's Placement reads no further groups such as [cors.subdomain].
type Options struct {
	AllowedOrigin    []string // allowed_origin: https://host[:port]; "*" is any; none: no answer is changed
	AllowCredentials bool     // allow_credentials
	ExposeHeaders    []string // expose_headers
	MaxAge           int      // max_age, in seconds; 0: a browser is not told
	AllowMethods     []string // allow_methods
	AllowHeaders     []string // allow_headers, beside those that are always allowed
}

// Defaults are the options as OpenStack's Placement has them before anybody writes others.
func Defaults() Options {
	return Options{
		AllowCredentials: true,
		ExposeHeaders:    []string{"X-Auth-Token", "X-Openstack-Request-Id", "X-Subject-Token", "X-Service-Token", "OpenStack-API-Version"},
		MaxAge:           3600,
		AllowMethods:     []string{"GET", "PUT", "POST", "DELETE", "PATCH"},
		AllowHeaders: []string{"X-Auth-Token", "X-Openstack-Request-Id", "X-Identity-Status", "X-Roles", "X-Service-Catalog", "X-User-Id",
			"X-Tenant-Id", "OpenStack-API-Version"},
	}
}

// Handler decides about answers. A nil Policy changes none. It is safe for concurrent use.
type Handler struct {
	opts    Options
	headers map[string]bool // allowed in a request, in lower case
}

// New makes a policy, nil when no origin is allowed.
func New(o Options) *Handler {
	if len(o.AllowedOrigin) == 0 {
		return nil
	}
	p := &Handler{opts: o, headers: map[string]bool{}}
	always := []string{"Accept", "Accept-Language", "Content-Type", "Cache-Control", "Content-Language", "Expires", "Last-Modified", "Pragma"}
	for _, name := range slices.Concat(always, o.AllowHeaders) {
		p.headers[strings.ToLower(name)] = true
	}
	return p
}

// Apply changes the headers of an answer that is ready to be sent. When it answers in place of the service (to OPTIONS, which
// the service refused), h is emptied, the status is another, and the body must be left out.
func (p *Handler) Apply(r *http.Request, status int, h http.Header) (newStatus int, replaced bool) {
	if p == nil {
		return status, false
	}
	if r.Method != http.MethodOptions {
		p.setResponseHeaders(r, h)
		return status, false
	}
	if status < 200 || status >= 300 {
		clear(h)
		status, replaced = http.StatusOK, true
	}
	p.setPreflightHeaders(r, h)
	return status, replaced
}

// origin is what the answer says of the request's origin: itself, "*", or nothing when it is not allowed.
func (p *Handler) origin(r *http.Request) string {
	given, ok := r.Header["Origin"]
	switch {
	case !ok:
		return ""
	case slices.Contains(p.opts.AllowedOrigin, given[0]):
		return given[0]
	case slices.Contains(p.opts.AllowedOrigin, "*"):
		return "*"
	}
	return ""
}

// setResponseHeaders tells the browser that a page of the origin may see the answer.
func (p *Handler) setResponseHeaders(r *http.Request, h http.Header) {
	origin := p.origin(r)
	if origin == "" {
		return
	}
	vary := "Origin"
	if had := h.Get("Vary"); had != "" {
		vary = had + ",Origin"
	}
	h.Set("Vary", vary)
	p.setOrigin(h, origin)
	if len(p.opts.ExposeHeaders) > 0 {
		h.Set("Access-Control-Expose-Headers", strings.Join(p.opts.ExposeHeaders, ","))
	}
}

func (p *Handler) setOrigin(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	if p.opts.AllowCredentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

// setPreflightHeaders tells the browser whether a page may send the request that it asks about.
func (p *Handler) setPreflightHeaders(r *http.Request, h http.Header) {
	origin, method := p.origin(r), r.Header.Get("Access-Control-Request-Method")
	if origin == "" || !slices.Contains(p.opts.AllowMethods, method) {
		return
	}
	var asked []string
	for name := range strings.SplitSeq(strings.Join(r.Header["Access-Control-Request-Headers"], ","), ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if !p.headers[strings.ToLower(name)] {
			return
		}
		asked = append(asked, name)
	}
	h.Set("Vary", "Origin")
	p.setOrigin(h, origin)
	if p.opts.MaxAge != 0 {
		h.Set("Access-Control-Max-Age", strconv.Itoa(p.opts.MaxAge))
	}
	h.Set("Access-Control-Allow-Methods", method)
	if len(asked) > 0 {
		h.Set("Access-Control-Allow-Headers", strings.Join(asked, ","))
	}
}

// Package cors adds CORS headers to the answers of an API, as oslo.middleware does in OpenStack's services, so that
// pages of other origins can use the API in a browser.
//
// A Handler applies the options of [cors] to an answer that is ready to be sent; it sends nothing itself. It must also
// be applied to answers of failed authentication, because a browser sends OPTIONS without a token first.
package cors

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Options are the options of [cors]. OpenStack's Placement reads no further groups such as [cors.subdomain].
type Options struct {
	AllowedOrigin    []string // allowed_origin: https://host[:port]; "*" is any; empty: no answer is changed
	AllowCredentials bool     // allow_credentials
	ExposeHeaders    []string // expose_headers
	MaxAge           int      // max_age, in seconds; 0: the header is not sent
	AllowMethods     []string // allow_methods
	AllowHeaders     []string // allow_headers, in addition to those that are always allowed
}

// Defaults returns the default options of OpenStack's Placement.
func Defaults() Options {
	return Options{
		AllowCredentials: true,
		ExposeHeaders: []string{"X-Auth-Token", "X-Openstack-Request-Id", "X-Subject-Token", "X-Service-Token",
			"OpenStack-API-Version"},
		MaxAge:       3600,
		AllowMethods: []string{"GET", "PUT", "POST", "DELETE", "PATCH"},
		AllowHeaders: []string{"X-Auth-Token", "X-Openstack-Request-Id", "X-Identity-Status", "X-Roles",
			"X-Service-Catalog", "X-User-Id", "X-Tenant-Id", "OpenStack-API-Version"},
	}
}

// ComputeDefaults returns the default options of OpenStack's Nova.
func ComputeDefaults() Options {
	o := Defaults()
	o.ExposeHeaders = append(o.ExposeHeaders, "X-OpenStack-Nova-API-Version")
	o.AllowHeaders = append(o.AllowHeaders, "X-OpenStack-Nova-API-Version")
	return o
}

// Handler sets the CORS headers of answers. A nil Handler changes no answer. It is safe for concurrent use.
type Handler struct {
	opts    Options
	headers map[string]bool // allowed in a request, in lower case
}

// New returns a handler; nil if no origin is allowed.
func New(o Options) *Handler {
	if len(o.AllowedOrigin) == 0 {
		return nil
	}
	p := &Handler{opts: o, headers: map[string]bool{}}
	always := []string{"Accept", "Accept-Language", "Content-Type", "Cache-Control", "Content-Language", "Expires",
		"Last-Modified", "Pragma"}
	for _, name := range slices.Concat(always, o.AllowHeaders) {
		p.headers[strings.ToLower(name)] = true
	}
	return p
}

// Apply sets the CORS headers of an answer that is ready to be sent, and returns its status. If the service refused an
// OPTIONS request, Apply replaces the answer: it clears h, returns status 200 and replaced, and the caller must not
// send the body.
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

// origin returns the value of Access-Control-Allow-Origin: the origin of the request or "*"; empty if the origin is not
// allowed.
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

// setResponseHeaders sets the headers that allow a page of the origin to read the answer.
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

// setOrigin sets the headers for the origin and the credentials.
func (p *Handler) setOrigin(h http.Header, origin string) {
	h.Set("Access-Control-Allow-Origin", origin)
	if p.opts.AllowCredentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
}

// setPreflightHeaders sets the headers that allow a page to send the request that an OPTIONS request describes, if it
// is allowed.
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

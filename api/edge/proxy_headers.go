package edge

import (
	"cmp"
	"net/http"
	"strings"
)

// proxyHeaders is what a proxy's headers say and http.Request has no field for.
type proxyHeaders struct {
	scheme string // that the client used; empty: that of the connection
	prefix string // of the API's paths at the proxy; empty, or it begins with a slash
}

// forwarded returns a request with the scheme, host and address that the client used at the proxy, and the prefix of
// the API's paths there. It is used with [oslo_middleware] enable_proxy_headers_parsing.
//
// As in oslo.middleware's http_proxy_to_wsgi, Forwarded (RFC 7239) has precedence over X-Forwarded-Proto, -Host and
// -For; of several proxies the one nearest to the client counts; X-Forwarded-Prefix is the prefix. Unlike there, quotes
// around a value of Forwarded are removed, and a scheme other than http and https is ignored.
func forwarded(r *http.Request) (as *http.Request, p proxyHeaders) {
	as = r.WithContext(r.Context()) // a copy
	values := map[string]string{"proto": r.Header.Get("X-Forwarded-Proto"), "host": r.Header.Get("X-Forwarded-Host"),
		"for": r.Header.Get("X-Forwarded-For")}
	if whole := r.Header.Get("Forwarded"); whole != "" {
		clear(values)
		for pair := range strings.SplitSeq(first(whole), ";") {
			key, value, _ := strings.Cut(pair, "=")
			values[strings.ToLower(strings.TrimSpace(key))] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	if proto := strings.ToLower(first(values["proto"])); proto == "http" || proto == "https" {
		p.scheme = proto
	}
	if host := first(values["host"]); host != "" {
		as.Host = host
	}
	if from := first(values["for"]); from != "" {
		as.RemoteAddr = from
	}
	if prefix := strings.Trim(first(r.Header.Get("X-Forwarded-Prefix")), "/"); prefix != "" {
		p.prefix = "/" + prefix
	}
	return as, p
}

// first returns the first item of a comma-separated list.
func first(list string) string {
	item, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(item)
}

// baseURL returns the URL of the API that the client used.
func (p proxyHeaders) baseURL(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	scheme = cmp.Or(p.scheme, scheme)
	return scheme + "://" + withoutDefaultPort(scheme, r.Host) + p.prefix
}

// withoutDefaultPort removes the default port of a scheme from a host.
func withoutDefaultPort(scheme, host string) string {
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

package server

import (
	"net/http"
	"strings"
)

// forwarded is a request as the client sent it to the proxy before us: with [oslo_middleware] enable_proxy_headers_parsing. It follows
// oslo.middleware's http_proxy_to_wsgi: Forwarded (RFC 7239) goes before X-Forwarded-Proto, -Host and -For, of several proxies the one
// nearest to the client counts, and X-Forwarded-Prefix is what stands before our paths. Unlike there, quotes around a value of
// Forwarded are taken away, and a scheme that is neither http nor https is passed over.
func forwarded(r *http.Request) (as *http.Request, scheme, prefix string) {
	as = r.WithContext(r.Context()) // a copy
	said := map[string]string{"proto": r.Header.Get("X-Forwarded-Proto"), "host": r.Header.Get("X-Forwarded-Host"), "for": r.Header.Get("X-Forwarded-For")}
	if whole := r.Header.Get("Forwarded"); whole != "" {
		clear(said)
		for pair := range strings.SplitSeq(first(whole), ";") {
			key, value, _ := strings.Cut(pair, "=")
			said[strings.ToLower(strings.TrimSpace(key))] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	if proto := strings.ToLower(first(said["proto"])); proto == "http" || proto == "https" {
		scheme = proto
	}
	if host := first(said["host"]); host != "" {
		as.Host = host
	}
	if from := first(said["for"]); from != "" {
		as.RemoteAddr = from
	}
	if prefix = strings.Trim(first(r.Header.Get("X-Forwarded-Prefix")), "/"); prefix != "" {
		prefix = "/" + prefix
	}
	return as, scheme, prefix
}

// first is the first item of a list with commas.
func first(list string) string {
	item, _, _ := strings.Cut(list, ",")
	return strings.TrimSpace(item)
}

// withoutDefaultPort is a host as a URL has it.
func withoutDefaultPort(scheme, host string) string {
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

package httpserver

import (
	"net"
	"net/http"
	"strings"
)

// LoopbackOnly rejects requests whose Host header does not name this machine, with status 421. Without it, a web page
// could make its own name resolve to 127.0.0.1 and use a service with noauth2 as admin.
func LoopbackOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if !strings.EqualFold(host, "localhost") && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "with auth_strategy = noauth2 this service answers only to localhost, 127.0.0.1 and [::1]",
				http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

package edge

import (
	"context"
	"net/http"
	"strings"
)

// mountKey is the key of the prefix in the context of a request.
type mountKey struct{}

// Mount returns a handler that serves an API below a prefix, such as /compute. The API sees its own paths, and its
// links have the prefix.
func Mount(prefix string, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), mountKey{}, prefix))
		own := *r.URL
		own.Path = withoutPrefix(own.Path, prefix)
		if own.RawPath != "" {
			own.RawPath = withoutPrefix(own.RawPath, prefix)
		}
		r.URL = &own
		api.ServeHTTP(w, r)
	})
}

func withoutPrefix(path, prefix string) string {
	if path = strings.TrimPrefix(path, prefix); path == "" {
		return "/"
	}
	return path
}

// mountOf returns the prefix below which the request was received; empty if there is none.
func mountOf(r *http.Request) string {
	prefix, _ := r.Context().Value(mountKey{}).(string)
	return prefix
}

// BaseURL returns the URL that the client used for the root of a server, without a slash at the end. trustProxy: the
// headers of proxies are trusted.
func BaseURL(r *http.Request, trustProxy bool) string {
	var p proxyHeaders
	if trustProxy {
		r, p = forwarded(r)
	}
	return p.baseURL(r)
}

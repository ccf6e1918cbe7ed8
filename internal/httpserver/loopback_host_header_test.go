package httpserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// With LoopbackOnly, only requests to a name of this machine are answered.
func TestLoopbackOnly(t *testing.T) {
	h := LoopbackOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for host, want := range map[string]int{
		"localhost": 200, "LocalHost:8778": 200, "127.0.0.1": 200, "127.1.2.3:80": 200, "[::1]:8778": 200,
		"": 421, "example.org": 421, "localhost.example.org": 421, "10.0.0.1:8778": 421, "[2001:db8::1]": 421,
	} {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.Host = host
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%q: %d, not %d", host, w.Code, want)
		}
	}
}

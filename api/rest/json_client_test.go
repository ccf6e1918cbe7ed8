package rest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openberth/berth/fault"
)

// transports runs a test over a socket and in memory. Both must behave in the same way.
func transports(t *testing.T, h http.Handler, test func(t *testing.T, c *Client)) {
	t.Run("socket", func(t *testing.T) {
		s := httptest.NewServer(h)
		defer s.Close()
		test(t, &Client{Base: s.URL})
	})
	t.Run("memory", func(t *testing.T) { test(t, &Client{Base: "http://placement", HTTP: InMemory(h)}) })
}

func TestErrorBodiesBecomeFaults(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/placement", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Openstack-Request-Id", "req-1")
		WriteJSON(w, 409, map[string]any{"errors": []any{map[string]any{"status": 409, "title": "Conflict",
			"detail": "generation", "code": "placement.concurrent_update"}}})
	})
	mux.HandleFunc("/compute", func(w http.ResponseWriter, r *http.Request) {
		WriteJSON(w, 400, map[string]any{"badRequest": map[string]any{"code": 400, "message": "no name"}})
	})
	transports(t, mux, func(t *testing.T, c *Client) {
		_, err := c.Do(t.Context(), "GET", "/placement", nil, nil)
		if !fault.Is(err, fault.Conflict) || fault.CodeOf(err) != "placement.concurrent_update" ||
			StatusOf(err).RequestID != "req-1" {
			t.Errorf("%v", err)
		}
		_, err = c.Do(t.Context(), "GET", "/compute", nil, nil)
		if !fault.Is(err, fault.Invalid) || fault.TextOf(err) != "no name" {
			t.Errorf("%v", err)
		}
		_, err = c.Do(t.Context(), "GET", "/nowhere", nil, nil)
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
	})
}

func TestRequestAndAnswerBodies(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]int
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		WriteJSON(w, 200, map[string]int{"twice": in["n"] * 2, "q": len(r.URL.Query()["a"])})
	})
	transports(t, h, func(t *testing.T, c *Client) {
		var out map[string]int
		if _, err := c.Do(t.Context(), "PUT", "/x?a=1&a=2", map[string]int{"n": 21}, &out); err != nil ||
			out["twice"] != 42 || out["q"] != 2 {
			t.Errorf("%v %v", out, err)
		}
	})
}

func TestUnreachableIsUnavailable(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	c := &Client{Base: s.URL}
	if _, err := c.Do(t.Context(), "GET", "/", nil, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
}

// A kept connection may end while a request is written on it, as when the service restarts. A request that may be sent
// again is sent over a new connection; one that creates something is not.
func TestRequestOnAnEndingConnection(t *testing.T) {
	for method, again := range map[string]bool{"GET": true, "PUT": true, "DELETE": true, "POST": false} {
		t.Run(method, func(t *testing.T) {
			requests := map[string]int{} // by connection
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests[r.RemoteAddr]++; requests[r.RemoteAddr] > 1 {
					panic(http.ErrAbortHandler)
				}
				var in map[string]int
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
					t.Error(err)
				}
				WriteJSON(w, 200, in)
			}))
			defer s.Close()
			c := &Client{Base: s.URL}
			for _, n := range []int{1, 2} {
				var out map[string]int
				_, err := c.Do(t.Context(), method, "/", map[string]int{"n": n}, &out)
				if n == 2 && !again {
					if !fault.Is(err, fault.Unavailable) {
						t.Errorf("%v", err)
					}
				} else if err != nil || out["n"] != n {
					t.Errorf("request %d: %v %v", n, out, err)
				}
			}
		})
	}
}

// An answer without a body, as a proxy can give it, is not taken for an answer without objects.
func TestEmptyAnswerIsUnavailable(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusOK) })
	transports(t, h, func(t *testing.T, c *Client) {
		var out map[string]int
		if _, err := c.Do(t.Context(), "GET", "/x", nil, &out); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v %v", out, err)
		}
		for method, into := range map[string]any{"GET": nil, "PUT": &out} {
			if _, err := c.Do(t.Context(), method, "/x", nil, into); err != nil {
				t.Errorf("%s: %v", method, err)
			}
		}
	})
}

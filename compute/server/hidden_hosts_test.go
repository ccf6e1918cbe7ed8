package server

import (
	"context"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// failingStore refuses every change of a server.
type failingStore struct{ Store }

func (failingStore) Change(context.Context, string, func(lifecycle.Server) lifecycle.Server) (lifecycle.Server, error) {
	return lifecycle.Server{}, fault.New(fault.Conflict, "host cmp1 is busy")
}

// TestUsersSeeNoHosts tests that a fault of a server, its explanation and an error name hosts for administrators only.
func TestUsersSeeNoHosts(t *testing.T) {
	h := startWith(t, func(o *Options) { o.Store = failingStore{o.Store} })
	id := h.running("web")
	_, err := h.store.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
		s.Refusal = &lifecycle.Fault{Code: 500, Message: "The guest cannot be stopped on cmp1: broken."}
		return s
	})
	if err != nil {
		t.Fatal(err)
	}
	at := "/servers/" + id
	const hidden = "stopped on host (hidden): broken."
	h.exchanges("ann:p1", []exchange{
		{"2.1", "GET", at, "", 200, hidden},
		{"2.1", "GET", "/servers/detail", "", 200, hidden},
		{"2.1", "POST", at + "/metadata", `{"metadata": {"a": "b"}}`, 409, `"host (hidden) is busy"`},
	})
	h.exchanges("admin", []exchange{
		{"2.1", "GET", at, "", 200, "stopped on cmp1: broken."},
		{"2.1", "POST", at + "/metadata", `{"metadata": {"a": "b"}}`, 409, "host cmp1 is busy"},
	})
	if why, err := h.client("ann:p1").Why(t.Context(), id); err != nil || why.Fault != "The guest cannot be "+hidden {
		t.Errorf("%q %v", why.Fault, err)
	}
}

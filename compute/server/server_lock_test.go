package server

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
)

// TestLockedServer checks that users cannot change a locked server, that administrators can, and who may unlock it.
func TestLockedServer(t *testing.T) {
	h := start(t)
	id := h.running("web")
	path := "/servers/" + id
	h.exchanges("ann:p1", []exchange{
		{"2.9", "GET", path, "", 200, `"locked":false`},
		{"2.9", "POST", path + "/action", `{"lock": null}`, 202, ""},
		{"2.9", "GET", path, "", 200, `"locked":true`},
		{"2.9", "POST", path + "/action", `{"os-stop": null}`, 409, "is locked"},
		{"2.9", "DELETE", path, "", 409, "is locked"},
		{"2.9", "POST", path + "/metadata", `{"metadata": {"a": "b"}}`, 409, "is locked"},
		{"2.9", "DELETE", path + "/metadata/a", "", 409, "is locked"},
		{"2.9", "POST", path + "/os-interface", `{}`, 409, "is locked"},
		{"2.9", "DELETE", path + "/os-interface/p", "", 409, "is locked"},
		{"2.9", "PUT", path, `{"server": {"name": "new"}}`, 200, `"name":"new"`},
		{"2.9", "POST", path + "/action", `{"unlock": null}`, 202, ""},
		{"2.9", "POST", path + "/metadata", `{"metadata": {"a": "b"}}`, 200, ""},
		{"2.9", "GET", path + "/os-instance-actions", "", 200, `"action":"unlock"`},
	})
	h.exchanges("admin", []exchange{
		{"2.9", "POST", path + "/action", `{"lock": null}`, 202, ""},
		{"2.9", "POST", path + "/metadata", `{"metadata": {"a": "c"}}`, 200, ""},
	})
	h.exchanges("ann:p1", []exchange{
		{"2.9", "POST", path + "/action", `{"lock": null}`, 202, ""}, // the lock of the administrator stays
		{"2.9", "POST", path + "/action", `{"unlock": null}`, 403, "unlock_override"},
		{"2.9", "GET", path, "", 200, `"locked":true`},
	})
	h.exchanges("admin", []exchange{
		{"2.9", "POST", path + "/action", `{"unlock": null}`, 202, ""},
		{"2.9", "GET", path, "", 200, `"locked":false`},
		{"2.73", "GET", path, "", 200, `"locked_reason":null`},
		{"2.73", "POST", path + "/action", `{"lock": {"locked_reason": ""}}`, 400, "locked_reason"},
		{"2.73", "POST", path + "/action", `{"lock": {"why": "x"}}`, 400, "why"},
		{"2.73", "POST", path + "/action", `{"lock": {"locked_reason": "audit"}}`, 202, ""},
		{"2.73", "GET", path, "", 200, `"locked_reason":"audit"`},
	})
}

// lateStore calls before at the first change of a server.
type lateStore struct {
	Store
	before func()
}

func (s *lateStore) Change(ctx context.Context, id string, next func(lifecycle.Server) lifecycle.Server) (
	lifecycle.Server, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Store.Change(ctx, id, next)
}

// TestLockChangesDuringUnlock locks a server as an administrator while its user unlocks it: the user must not remove
// that lock.
func TestLockChangesDuringUnlock(t *testing.T) {
	late := &lateStore{}
	h := startWith(t, func(o *Options) { late.Store = o.Store; o.Store = late })
	id := h.running("web")
	path := "/servers/" + id
	late.before = func() {
		_, err := h.store.Change(t.Context(), id, func(s lifecycle.Server) lifecycle.Server {
			return s.WithLock(&lifecycle.Lock{ByAdmin: true}, lifecycle.Caller{}, time.Now())
		})
		if err != nil {
			t.Error(err)
		}
	}
	h.exchanges("ann:p1", []exchange{
		{"2.9", "POST", path + "/action", `{"unlock": null}`, 403, "unlock_override"},
		{"2.9", "GET", path, "", 200, `"locked":true`},
	})
	if late.before != nil {
		t.Error("the server was not changed")
	}
}

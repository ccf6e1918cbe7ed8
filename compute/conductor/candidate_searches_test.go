package conductor

import (
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/scheduler"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/placementtest"
)

// A query that Placement cannot decide is repeated a bounded number of times; then the server is in ERROR with the
// reason. Another server is created meanwhile and afterwards.
func TestUndecidedSearchEndsInError(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2})
	var mu sync.Mutex
	asked := 0
	c.start(t.Context(), c.store, c.client(func(call placementtest.Call) (before, after error) {
		mu.Lock()
		defer mu.Unlock()
		if call.Op != "Candidates" || asked == scheduler.UndecidedLimit {
			return nil, nil
		}
		asked++
		return fault.New(fault.Unavailable, "Not decided: whether the groups _a, _b fit together").
			WithCode(placement.CodeUndecided), nil
	}))
	s := c.make(server("s"))
	c.settle(lifecycle.Error)
	if s = c.server(); !strings.Contains(s.Fault.Message, "_a, _b fit together") || asked != scheduler.UndecidedLimit {
		t.Errorf("%d queries, %+v", asked, s.Fault)
	}
}

package conductor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
)

// Servers of one request are built together or not at all, each on devices of its own.
func TestMinCountOrNone(t *testing.T) {
	for room, built := range map[int]int{3: 3, 2: 0} {
		c := newCloud(t, map[string]int{"a": room})
		c.start(t.Context(), c.store, c.client(nil))
		var list []lifecycle.Server
		for i := range 3 {
			s := server(fmt.Sprintf("aaaaaaaa-bbbb-%d", i))
			s.MinCount = 3
			list = append(list, s)
		}
		if _, err := c.conductor().Create(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
		c.waitSettled()
		c.checkConsistent("mustered")
		if c.count(lifecycle.Active) != built {
			t.Errorf("room for %d: %d active\n%s", room, c.count(lifecycle.Active), c.histories())
		}
		for _, s := range c.servers() {
			if s.State == lifecycle.Error && s.Fault.Message == "" {
				t.Errorf("%s: no sentence", s.ID)
			}
		}
	}
}

// Each server of a request that does not fit either reports the exact room, or that it has no host itself.
func TestMinCountReportsExactRoom(t *testing.T) {
	const asked, room = 30, 14
	c := newCloud(t, map[string]int{"a": room - 5, "b": 5})
	c.start(t.Context(), c.store, c.client(nil))
	var list []lifecycle.Server
	for i := range asked {
		s := server(fmt.Sprintf("aaaaaaaa-bbbb-%d", i))
		s.MinCount = asked
		list = append(list, s)
	}
	if _, err := c.conductor().Create(t.Context(), list...); err != nil {
		t.Fatal(err)
	}
	c.waitSettled()
	c.checkConsistent("all failed")
	placed := 0
	for _, s := range c.servers() {
		switch {
		case s.State != lifecycle.Error || s.Fault == nil:
			t.Errorf("%s is in state %s", s.ID, s.State)
		case strings.Contains(s.Fault.Message, "needs at least 30 servers, and there is room for 14."):
			placed++
		case strings.Contains(s.Fault.Message, "room for"):
			t.Errorf("%s: %s", s.ID, s.Fault.Message)
		}
	}
	if placed != room {
		t.Errorf("%d servers report the room, want %d\n%s", placed, room, c.histories())
	}
}

package conductor

import (
	"fmt"
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

package conductor

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
)

// In a large cloud the hosts of a sample are tried first. A server that fits on none of these still gets the only host
// with room.
func TestOnlyHostOfLargeCloud(t *testing.T) {
	hosts := map[string]int{}
	for i := range 200 {
		hosts[fmt.Sprintf("h%03d", i)] = 0
	}
	hosts["h137"] = 1
	c := newCloud(t, hosts)
	for n := range 5 {
		s := server("s")
		s.ID = fmt.Sprint("s", n) // the sample depends on it
		event, err := New(c.store, c.client(nil), Config{}).steps.schedule(t.Context(), s)
		chosen, is := event.(lifecycle.Chosen)
		if err != nil || !is || len(chosen.Choices) != 1 || chosen.Choices[0].Host != "h137" {
			t.Errorf("%+v %v", event, err)
		}
	}
}

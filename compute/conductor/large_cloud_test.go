package conductor

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/numa"
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

// A planned server has a reason also if compute knows no host, or not the one that a move goes to, while Placement has
// providers: those of Nova's hosts, or of a host whose agent has never reported.
func TestReasonWithoutHosts(t *testing.T) {
	for name, c := range map[string]struct {
		hosts map[string]int
		to    string
		why   string
	}{
		"no host":         {map[string]int{}, "", "no agent of any host has reported"},
		"an unknown host": {map[string]int{"a": 1}, "nova1", "no agent has reported for host nova1"},
	} {
		env := newCloud(t, c.hosts)
		env.addHost("nova1", 0)
		s := server("s")
		s.Requests, s.Ask.Groups = nil, s.Ask.Groups[1:]
		s.Topology = []numa.GuestCell{{VCPUs: []int{0}, MemoryMB: 64}}
		if c.to != "" {
			s.Move = &lifecycle.Move{To: c.to}
		}
		event, err := New(env.store, env.client(nil), Config{}).steps.schedule(t.Context(), s)
		if none, is := event.(lifecycle.NoValidHost); err != nil || !is || none.Reason != c.why {
			t.Errorf("%s: %+v %v", name, event, err)
		}
	}
}

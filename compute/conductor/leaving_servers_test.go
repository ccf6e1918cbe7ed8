package conductor

import (
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/resource"
)

// What keeps a server with a host that does not answer does not keep another server of the same flavor there that
// requests something else.
func TestServersOfAFlavorLeaveByTheirOwnRequests(t *testing.T) {
	for name, restrict := range map[string]func(s *lifecycle.Server, from, to string){
		"its only host": func(s *lifecycle.Server, from, _ string) { s.Target = from },
		"its zone":      func(s *lifecycle.Server, _, _ string) { s.Zone = "elsewhere" },
		"same_host":     func(s *lifecycle.Server, _, _ string) { s.SameHost = []string{"s"} },
		"traits of its image": func(s *lifecycle.Server, _, _ string) {
			s.Image, s.Ask = "image", withTrait(s.Ask)
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c, at := silentAgents(t, map[string]int{"a": 6, "b": 6})
			from, to, first, second := twoOnOneHost(t, c)
			if _, err := c.store.Change(t.Context(), first, func(s lifecycle.Server) lifecycle.Server {
				restrict(&s, from, to)
				return s
			}); err != nil {
				t.Fatal(err)
			}
			check(t, c, at, followWithin+time.Second, to)
			for id, want := range map[string]string{first: from, second: to} {
				if s := perform(t, c, id); s.Host != want {
					t.Errorf("%s is on %s, want %s\n%s", id, s.Host, want, text(s))
				}
			}
		})
	}
}

// twoOnOneHost creates three servers on the hosts a and b, and returns two that are on one host, from.
func twoOnOneHost(t *testing.T, c *Conductor) (from, to, first, second string) {
	t.Helper()
	on := map[string][]string{}
	for _, id := range []string{"s1", "s2", "s3"} {
		host := created(t, c, id).Host
		on[host] = append(on[host], id)
	}
	if from, to = "a", "b"; len(on[from]) < 2 {
		from, to = to, from
	}
	return from, to, on[from][0], on[from][1]
}

// withTrait returns a request that no host of a test can serve.
func withTrait(ask resource.Ask) resource.Ask {
	groups := append([]resource.Group{}, ask.Groups...)
	groups[len(groups)-1].Required = [][]resource.Trait{{"CUSTOM_FAST"}}
	ask.Groups = groups
	return ask
}

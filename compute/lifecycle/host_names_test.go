package lifecycle

import "testing"

// Users do not see the names of hosts in texts about their servers.
func TestWithoutHosts(t *testing.T) {
	s := Server{Host: "cmp1", FailedHosts: map[string]string{"cmp1.example": "x", "cmp2": "y"},
		Migration: &Migration{From: "node-7", To: "cmp3"}, Move: &Move{From: Residence{Host: "cmp4"}}}
	for text, want := range map[string]string{
		"No valid host was found: no room; tried before: cmp1.example: broken; cmp2: too small.": "No valid host was " +
			"found: no room; tried before: host (hidden): broken; host (hidden): too small.",
		"The guest cannot be stopped on cmp1: busy.":          "The guest cannot be stopped on host (hidden): busy.",
		"The live migration failed: host cmp3 was dead.":      "The live migration failed: host (hidden) was dead.",
		"its previous host cmp4 does not report":              "its previous host (hidden) does not report",
		"from node-7 to cmp3":                                 "from host (hidden) to host (hidden)",
		"cmp1 cmp2 cmp3":                                      "host (hidden) host (hidden) host (hidden)",
		"it is on cmp1.":                                      "it is on host (hidden).",
		"/var/cmp1x, cmp10, cmp1-2 and xcmp1 are other texts": "/var/cmp1x, cmp10, cmp1-2 and xcmp1 are other texts",
		"nothing": "nothing",
	} {
		if got := s.WithoutHosts(text); got != want {
			t.Errorf("%q\nbecomes %q\nnot     %q", text, got, want)
		}
	}
}

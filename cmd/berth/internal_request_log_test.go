package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// The log of berth up has the requests of clients at the level INFO, and those of compute and the agent in the same
// process only with debug.
func TestInternalRequestsAreLoggedAtDebugLevel(t *testing.T) {
	t.Parallel()
	for debug, want := range map[string]bool{"false": false, "true": true} {
		d := up(t, conf(t, machine(t, 1, 1), "[DEFAULT]", "debug = "+debug), t.TempDir())
		testenv.Until(t, "the agent has reported", func() (bool, error) {
			list, err := d.hosts().Hosts(t.Context())
			return len(list) == 1, err
		})
		expect(t, 0, "cmp1", "provider", "list", "--placement-url", d.urls["placement"])
		d.stop(t)
		internal := false
		for line := range strings.Lines(d.log.String()) {
			if strings.Contains(line, "msg=request") && strings.Contains(line, "from=127.0.0.1:0 ") {
				internal = true
				if !strings.Contains(line, "level=DEBUG") {
					t.Errorf("not at debug level: %s", line)
				}
			}
		}
		if internal != want || !strings.Contains(d.log.String(), "route=/resource_providers ") {
			t.Errorf("debug=%s: internal requests logged: %v", debug, internal)
		}
	}
}

package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

func TestOneAgentServesAHost(t *testing.T) {
	for _, c := range []struct {
		has, comes string
		ago        time.Duration
		admitted   bool
	}{
		{"", "", 0, true},
		{"", "b", 0, true}, // the one before did not say who it is
		{"a", "a", 0, true},
		{"a", "b", 0, false},
		{"a", "", 0, false},
		{"a", "b", schedule.Silence - time.Second, false},
		{"a", "b", schedule.Silence, true},
	} {
		h := schedule.Host{Name: "h", Instance: c.has, Seen: noon.Add(-c.ago)}
		refusal := h.Admit(c.comes, noon)
		if (refusal == "") != c.admitted {
			t.Errorf("%+v: %q", c, refusal)
		}
		if refusal != "" && !strings.HasPrefix(refusal, "another agent serves host h: instance a, ") {
			t.Errorf("%+v: %q", c, refusal)
		}
	}
}

package read

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/fleet"
)

// What only the first of two looks could not read is a gap of both: a difference that it missed is not gone.
func TestGapsOfBothLooks(t *testing.T) {
	found := []fleet.Finding{{Rule: "orphan", Subject: "a"}}
	ports, agents := fleet.Gap{Part: fleet.Ports, Why: "503"}, fleet.Gap{Part: fleet.Agents, Why: "no answer"}
	looks := []Audited{{Differences: found, Gaps: []fleet.Gap{ports, agents}},
		{Differences: found, Gaps: []fleet.Gap{agents}}}
	both, err := Twice(t.Context(), time.Millisecond, func(context.Context) (Audited, error) {
		next := looks[0]
		looks = looks[1:]
		return next, nil
	}, func(Audited) {})
	if want := []fleet.Gap{agents, ports}; err != nil || !reflect.DeepEqual(both.Gaps, want) {
		t.Errorf("%+v %v, want the gaps %v", both, err, want)
	}
}

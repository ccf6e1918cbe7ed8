package audit

import (
	"testing"
	"time"
)

// What a periodic audit has found is returned until its time ends.
func TestReportedEnds(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := &Auditor{Options: Options{Now: func() time.Time { return now }}}
	if found, until := a.Reported(); len(found) > 0 || !until.IsZero() {
		t.Errorf("%v %v", found, until)
	}
	end := now.Add(time.Minute)
	a.SetReported(map[string]Reported{"cmp1": {Count: 1, First: []string{"over capacity"}}}, end)
	if found, until := a.Reported(); found["cmp1"].Count != 1 || until != end {
		t.Errorf("%v %v", found, until)
	}
	if now = end; len(func() map[string]Reported { found, _ := a.Reported(); return found }()) > 0 {
		t.Error("it is returned after its end")
	}
}

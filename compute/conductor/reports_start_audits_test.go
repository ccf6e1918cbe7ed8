package conductor

import (
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// A report starts an audit of its host every auditEvery at most, and every auditAgain if allocations are missing or
// Placement may have been restored.
func TestReportsStartAudits(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	conductor := c.auditor(c.client(nil))
	now, unavailable := time.Now(), fault.New(fault.Unavailable, "", "no answer")
	conductor.now = func() time.Time { return now }
	reported := func(name string) bool {
		report := schedule.Host{Name: name, Provider: provider.ID("root-" + name)}
		conductor.HostReported(report)
		conductor.HostReported(report) // twice is once
		host, ok := conductor.audits.next()
		if _, twice := conductor.audits.next(); twice {
			t.Error("two audits are due")
		}
		if ok {
			if _, err := conductor.audits.auditHost(t.Context(), host); err != nil {
				t.Fatal(err)
			}
		}
		return ok
	}
	for _, c := range []struct {
		what  string
		after time.Duration
		do    func()
		want  bool
	}{
		{"the first report", 0, nil, true},
		{"the next", auditEvery - time.Second, nil, false},
		{"a later one", time.Second, nil, true},
		{"Placement did not answer", auditAgain, func() { conductor.audits.noteUnavailable(unavailable) }, true},
		{"Placement refused something", auditAgain, func() { conductor.audits.noteUnavailable(concurrent()) }, false},
		{"all is well on another host", 0, func() { reported("b") }, false},
		{"something is missing", auditEvery - time.Second, func() { reported("b"); c.placed("s", nil) }, true},
		{"still", auditAgain - time.Second, nil, false},
		{"and again", time.Second, nil, true},
	} {
		now = now.Add(c.after)
		if c.do != nil {
			c.do()
		}
		if got := reported("a"); got != c.want {
			t.Errorf("%s: audited: %v", c.what, got)
		}
	}
	now = now.Add(auditAgain)
	if !reported("b") {
		t.Error("missing allocations on one host do not make the audits of other hosts out of date")
	}
}

package conductor

import (
	"testing"
	"time"

	"github.com/openberth/berth/compute/audit"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// A report starts an audit of its host every Times.Every at most, and every Times.Again if the last one has found
// something or Placement may have been restored.
func TestReportsStartAudits(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	now, unavailable := time.Now(), fault.New(fault.Unavailable, "no answer")
	conductor := c.auditor(c.client(nil), at(&now))
	reported := func(name string) bool {
		report := schedule.Host{Name: name, Provider: provider.ID("root-" + name)}
		conductor.Audits.HostReported(report)
		conductor.Audits.HostReported(report) // twice is once
		ok := conductor.Audits.AuditNext(t.Context())
		if conductor.Audits.AuditNext(t.Context()) {
			t.Error("two audits are due")
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
		{"the next", audits.Every - time.Second, nil, false},
		{"a later one", time.Second, nil, true},
		{"Placement did not answer", audits.Again, func() { conductor.Audits.NoteUnavailable(unavailable) }, true},
		{"Placement refused something", audits.Again, func() { conductor.Audits.NoteUnavailable(concurrent()) }, false},
		{"all is well on another host", 0, func() { reported("b") }, false},
		{"something is missing", audits.Every - time.Second, func() { reported("b"); c.placed("s", nil) }, true},
		{"still", audits.Again - time.Second, nil, false},
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
	now = now.Add(audits.Again)
	if !reported("b") {
		t.Error("missing allocations on one host do not make the audits of other hosts out of date")
	}
}

var audits = audit.Times{}.WithDefaults()

// The conditions of a host follow a change in Placement within five seconds, without a report of the host: a foreign
// allocation is found, and after its removal the condition ends.
func TestConditionsFollowPlacement(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	c.changed.Store(true)
	now := time.Now()
	conductor := c.auditor(c.client(nil), at(&now))
	passSeconds := func() {
		t.Helper()
		for range 5 { // seconds
			now = now.Add(time.Second)
			conductor.Audits.QueueOld()
			for conductor.Audits.AuditNext(t.Context()) {
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		conductor.Audits.HostReported(schedule.Host{Name: name, Provider: provider.ID("root-" + name)})
	}
	passSeconds()
	for range 3 {
		c.holds("x", resource.Allocation{"root-a": {"VCPU": 1}})
		if passSeconds(); len(conductor.HostConditions("a")) == 0 {
			t.Error("the foreign allocation is not reported after five seconds")
		}
		if err := c.client(nil).DeleteAllocation(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if passSeconds(); len(conductor.HostConditions("a")) > 0 {
			t.Errorf("five seconds after the remedy the conditions are %q", conductor.HostConditions("a"))
		}
	}
	if n := len(conductor.HostConditions("b")); n > 0 {
		t.Errorf("another host has %d conditions", n)
	}
}

// A foreign allocation is audited as often as a missing one.
func TestReportsStartAuditsOfForeignAllocations(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2})
	c.changed.Store(true)
	now := time.Now()
	conductor := c.auditor(c.client(nil), at(&now))
	c.holds("x", resource.Allocation{"root-a": {"VCPU": 1}})
	for _, want := range []struct {
		after   time.Duration
		audited bool
	}{{0, true}, {audits.Again - time.Second, false}, {time.Second, true}} {
		now = now.Add(want.after)
		conductor.Audits.HostReported(schedule.Host{Name: "a", Provider: "root-a"})
		if got := conductor.Audits.AuditNext(t.Context()); got != want.audited {
			t.Errorf("%s after the last audit: audited %t", want.after, got)
		}
	}
	if len(conductor.Audits.HostForeign("a")) != 1 {
		t.Error("the foreign allocation is not found, so the test shows nothing")
	}
}

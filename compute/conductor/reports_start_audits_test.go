package conductor

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// A report starts an audit of its host every auditEvery at most, and every auditAgain if allocations are missing or
// Placement may have been restored.
func TestReportsStartAudits(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	now, unavailable := time.Now(), fault.New(fault.Unavailable, "no answer")
	conductor := c.auditor(c.client(nil), at(&now))
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

// The conditions of a host follow a change in Placement within five seconds, without a report of the host: a foreign
// allocation is found, and after its removal the condition ends.
func TestConditionsFollowPlacement(t *testing.T) {
	c := newCloud(t, map[string]int{"a": 2, "b": 2})
	c.changed.Store(true)
	now := time.Now()
	conductor := c.auditor(c.client(nil), at(&now))
	audit := func() {
		t.Helper()
		for range 5 { // seconds
			now = now.Add(time.Second)
			conductor.audits.queueOld()
			for conductor.AuditNext(t.Context()) {
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		conductor.HostReported(schedule.Host{Name: name, Provider: provider.ID("root-" + name)})
	}
	audit()
	for range 3 {
		c.holds("x", resource.Allocation{"root-a": {"VCPU": 1}})
		if audit(); len(conductor.HostConditions("a")) == 0 {
			t.Error("the foreign allocation is not reported after five seconds")
		}
		if err := c.client(nil).DeleteAllocation(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if audit(); len(conductor.HostConditions("a")) > 0 {
			t.Errorf("five seconds after the remedy the conditions are %q", conductor.HostConditions("a"))
		}
	}
	if n := len(conductor.HostConditions("b")); n > 0 {
		t.Errorf("another host has %d conditions", n)
	}
}

// A large cloud has a bounded number of audits in a second, and each host has its turn.
func TestAuditsWithoutReportsAreBounded(t *testing.T) {
	c := newCloud(t, nil)
	now := time.Now()
	conductor := c.auditor(c.client(nil), at(&now))
	audited := map[string]bool{}
	for n := range 100 {
		name := fmt.Sprint("h", n)
		conductor.audits.hosts[name] = schedule.Host{Name: name}
		conductor.audits.last[name] = auditedComplete(now)
	}
	for range 9 {
		now = now.Add(time.Second)
		conductor.audits.queueOld()
		n := 0
		for {
			host, ok := conductor.audits.next()
			if !ok {
				break
			}
			n, audited[host.Name] = n+1, true
		}
		if n > auditRate {
			t.Errorf("%d audits in a second", n)
		}
	}
	if len(audited) != 100 {
		t.Errorf("%d of 100 hosts were audited", len(audited))
	}
}

// auditedComplete is an audit that found nothing, of a Placement that reports the states of trees.
func auditedComplete(at time.Time) audited { return audited{at: at, wholeState: "state"} }

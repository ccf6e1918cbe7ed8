package audit

import (
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/compute/schedule"
)

// A large cloud has a bounded number of audits in a second, and each host has its turn.
func TestAuditsWithoutReportsAreBounded(t *testing.T) {
	now := time.Now()
	a := New(nil, nil, Options{Now: func() time.Time { return now }})
	audited := map[string]bool{}
	for n := range 100 {
		name := fmt.Sprint("h", n)
		a.hosts[name] = schedule.Host{Name: name}
		a.last[name] = auditedComplete(now)
	}
	for range 9 {
		now = now.Add(time.Second)
		a.QueueOld()
		n := 0
		for {
			host, ok := a.next()
			if !ok {
				break
			}
			n, audited[host.Name] = n+1, true
		}
		if n > perPoll {
			t.Errorf("%d audits in a second", n)
		}
	}
	if len(audited) != 100 {
		t.Errorf("%d of 100 hosts were audited", len(audited))
	}
}

// auditedComplete is an audit that found nothing, of a Placement that reports the states of trees.
func auditedComplete(at time.Time) audited { return audited{at: at, wholeState: "state"} }

package operations

import (
	"context"
	"net/http"
	"slices"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
)

// fakeCompute is a compute that answers events with codes. Each call is sent to calls, if it is not nil.
type fakeCompute struct {
	codes map[string]int // by port; 0: 200
	fails error
	short bool // the answer has no events
	calls chan []string

	limit int // of egress bandwidth beside used; 0: none
	used  int
	sent  []compute.Guarantees
	lost  error // after a call of SendGuarantees
}

// SendGuarantees implements Compute.
func (f *fakeCompute) SendGuarantees(_ context.Context, _, _ string, g compute.Guarantees) error {
	if f.fails != nil {
		return f.fails
	}
	f.sent = append(f.sent, g)
	if more := g.More[string(egr)]; more > 0 && f.limit > 0 && f.used+more > f.limit {
		return fault.New(fault.Conflict, "Quota exceeded")
	}
	return f.lost
}

// ReportEvents implements Compute.
func (f *fakeCompute) ReportEvents(_ context.Context, events ...compute.ExternalEvent) ([]compute.ExternalEvent,
	error) {
	var ports []string
	for i, e := range events {
		ports = append(ports, e.Tag)
		if events[i].Code = f.codes[e.Tag]; events[i].Code == 0 {
			events[i].Code = http.StatusOK
		}
	}
	slices.Sort(ports)
	if f.calls != nil {
		f.calls <- ports
	}
	if f.short {
		events = nil
	}
	return events, f.fails
}

// events returns the recorded events.
func (c *cloud) events(t *testing.T) []store.Event {
	t.Helper()
	list, err := List[store.Event](t.Context(), c.Service, store.Filter{})
	must(t, err)
	return list
}

// A deleted port of a server is reported until compute answers that it has accepted the event, or that it cannot. Other
// ports are not reported.
func TestDeletedPortsAreReported(t *testing.T) {
	for name, test := range map[string]struct {
		compute fakeCompute
		code    int
		left    int
	}{
		"accepted":            {code: http.StatusOK},
		"no server":           {code: http.StatusNotFound},
		"no host":             {code: http.StatusUnprocessableEntity},
		"not understood":      {code: http.StatusBadRequest},
		"none has a server":   {compute: fakeCompute{fails: fault.New(fault.NotFound, "No instances found")}},
		"not now":             {code: http.StatusConflict, left: 1},
		"a failure":           {code: http.StatusInternalServerError, left: 1},
		"an answer too short": {compute: fakeCompute{short: true}, left: 1},
		"no answer":           {compute: fakeCompute{fails: fault.New(fault.Unavailable, "down")}, left: 1},
		"no account":          {compute: fakeCompute{fails: fault.New(fault.Forbidden, "no role")}, left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.Compute = &test.compute
			policy := c.policy(t, bwRule("egress", 1000))
			bound := c.boundPort(t, "normal", policy, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
			free, err := c.CreatePort(t.Context(), store.Port{Base: store.Base{Project: "demo"}, Network: c.network.ID}, nil)
			must(t, err)
			test.compute.codes = map[string]int{bound.ID: test.code}
			must(t, c.DeletePort(t.Context(), free.ID, NoRevision))
			must(t, c.DeletePort(t.Context(), bound.ID, NoRevision))
			list := c.events(t)
			if len(list) != 1 || list[0].Port != bound.ID || list[0].Server != string(server) ||
				list[0].Event != "network-vif-deleted" || len(c.shares()) != 0 {
				t.Fatalf("%+v, allocation %v", list, c.shares())
			}
			left, err := Reports{c.Service}.Once(t.Context())
			if left != test.left || len(c.events(t)) != test.left ||
				(err != nil) != (test.left == 1 && (test.compute.fails != nil || test.compute.short)) {
				t.Errorf("%d left, %v, %+v", left, err, c.events(t))
			}
		})
	}
	c := newCloud(t)
	bound := c.boundPort(t, "normal", "", nil, nil)
	must(t, c.DeletePort(t.Context(), bound.ID, NoRevision))
	if list := c.events(t); len(list) != 0 {
		t.Errorf("without a compute: %+v", list)
	}
}

// The process ends at each call of Placement while a bound port is deleted. Afterwards the port and its guarantee are
// there, or the event is.
func TestCrashWhileAPortIsDeleted(t *testing.T) {
	for _, after := range []bool{false, true} {
		for at := 0; ; at++ {
			c := newCloud(t)
			c.Compute = &fakeCompute{}
			policy := c.policy(t, bwRule("egress", 1000))
			bound := c.boundPort(t, "normal", policy, map[string]provider.ID{"minimum_bandwidth": bridge}, nil)
			ctx, calls := c.endAt(t, at, after)
			err := c.DeletePort(ctx, bound.ID, NoRevision)
			c.fail = nil
			must(t, c.Resume(t.Context(), 0))
			_, readErr := Get[store.Port](t.Context(), c.Service, bound.ID)
			exists := !fault.Is(readErr, fault.NotFound)
			if exists == (len(c.events(t)) == 1) || exists != (len(c.shares()) == 1) || err == nil && exists {
				t.Errorf("call %d after %t: %v, port exists %t, events %+v, allocation %v", at, after, err, exists,
					c.events(t), c.shares())
			}
			if *calls <= at {
				if at < 2 {
					t.Errorf("only %d calls: the test checks nothing", at)
				}
				break
			}
		}
	}
}

// Run reports what an earlier process has recorded, and what is recorded later. What is not accepted is reported
// again with it.
func TestReportsAreRepeated(t *testing.T) {
	c := newCloud(t)
	fake := &fakeCompute{calls: make(chan []string)}
	c.Compute = fake
	first, second := c.boundPort(t, "normal", "", nil, nil), c.boundPort(t, "normal", "", nil, nil)
	must(t, c.DeletePort(t.Context(), first.ID, NoRevision))
	fake.codes = map[string]int{first.ID: http.StatusConflict}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); Reports{c.Service}.Run(ctx) }()
	if got := <-fake.calls; !slices.Equal(got, []string{first.ID}) {
		t.Errorf("at the start: %v", got)
	}
	must(t, c.DeletePort(t.Context(), second.ID, NoRevision))
	want := []string{first.ID, second.ID}
	slices.Sort(want)
	for got := <-fake.calls; !slices.Equal(got, want); got = <-fake.calls { // woken by the first deletion
		if !slices.Equal(got, []string{first.ID}) {
			t.Fatalf("%v", got)
		}
	}
	stop()
	for running := true; running; {
		select {
		case <-fake.calls:
		case <-done:
			running = false
		}
	}
}

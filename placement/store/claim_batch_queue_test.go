package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// await polls until is returns true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	testenv.Until(t, what, is)
}

// length returns how many requests wait.
func (q *batchQueue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// hold lets all requests wait until free is called, as if a batch were running.
func (q *batchQueue) hold() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.batch = true
}

// free starts the next batch after hold.
func (q *batchQueue) free() { q.ended(true) }

// idle reports whether no transaction runs.
func (q *batchQueue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.batch && q.singles == 0
}

// joinAll lets members join a held queue in this order, and returns a function that waits for their results.
func joinAll(t *testing.T, q *batchQueue, members ...*batchMember) (wait func() []error) {
	t.Helper()
	results := make([]chan error, len(members))
	for i, m := range members {
		results[i] = make(chan error, 1)
		if m.ctx == nil {
			m.ctx = t.Context()
		}
		go func() { results[i] <- q.join(m) }()
		await(t, "joining", func() bool { return q.length() == i+1 })
	}
	return func() (all []error) {
		for _, c := range results {
			all = append(all, <-c)
		}
		return all
	}
}

// recordedQueue is a queue whose batches only record their members.
func recordedQueue() (q *batchQueue, batches chan []*batchMember) {
	batches = make(chan []*batchMember, 100)
	return &batchQueue{run: func(members []*batchMember) {
		for _, m := range members {
			m.done = true
		}
		batches <- members
	}}, batches
}

func removing(n int) *batchMember { return &batchMember{removed: consumer(n)} }

// A few requests run at once. Those that wait for a batch run together, in their order.
func TestWaitingRequestsShareOneTransaction(t *testing.T) {
	q, batches := recordedQueue()
	for range maxSingles {
		m := removing(500)
		m.ctx = t.Context()
		ok(t, q.join(m))
		if m.done || m.slot == nil {
			t.Fatalf("the request does not run its own transaction: %+v", m)
		}
		defer q.leave(m)
	}
	q.hold()
	members := []*batchMember{removing(501), {claims: []Claim{claim(502, 1, 1), claim(503, 1, 1)}}, removing(504)}
	wait := joinAll(t, q, members...)
	q.free()
	equal(t, "errors", wait(), []error{nil, nil, nil})
	if got := <-batches; !slices.Equal(got, members) {
		t.Errorf("the batch is %v, want %v", got, members)
	}
	await(t, "end", func() bool { q.mu.Lock(); defer q.mu.Unlock(); return !q.batch })
	await(t, "slots", q.idle) // at the latest after longTransaction
	last := removing(505)
	last.ctx = t.Context()
	ok(t, q.join(last))
	if last.slot == nil {
		t.Error("a request waits although no transaction runs")
	}
	q.leave(last)
}

// A batch has one request for each consumer, in their order, and no more than maxBatchMembers.
func TestBatchesHaveEachConsumerOnce(t *testing.T) {
	q := &batchQueue{}
	add := func(list ...*batchMember) { q.waiting = append(q.waiting, list...) }
	both := &batchMember{claims: []Claim{claim(500, 1, 1), claim(501, 1, 1)}}
	add(removing(500), both, removing(501), removing(502))
	for n := range maxBatchMembers {
		add(removing(600 + n))
	}
	names := func(members []*batchMember) (list []resource.ConsumerID) {
		for _, m := range members {
			list = append(list, m.consumers()...)
		}
		return list
	}
	var want []resource.ConsumerID
	for _, n := range []int{500, 502} {
		want = append(want, consumer(n))
	}
	for n := range maxBatchMembers - 2 {
		want = append(want, consumer(600+n))
	}
	equal(t, "first batch", names(q.next(true)), want)
	equal(t, "second batch", names(q.next(true)), []resource.ConsumerID{consumer(500), consumer(501),
		consumer(600 + maxBatchMembers - 2), consumer(600 + maxBatchMembers - 1)})
	equal(t, "third batch", names(q.next(true)), []resource.ConsumerID{consumer(501)})
	if !q.idle() && q.singles != 1 || len(q.next(false)) != 0 || !q.idle() {
		t.Error("the queue does not end")
	}
}

// A request whose client disconnects while it waits leaves the queue.
func TestCancelledRequestLeavesTheQueue(t *testing.T) {
	q, batches := recordedQueue()
	q.hold()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := removing(500)
	gone.ctx = ctx
	wait := joinAll(t, q, gone, removing(501), removing(502))
	cancel(errors.New("the client has disconnected"))
	await(t, "leaving", func() bool { return q.length() == 2 })
	q.free()
	all := wait()
	refused(t, all[0], fault.Unavailable, "", "the client has disconnected; nothing was changed")
	equal(t, "others", fmt.Sprint(all[1:], len(<-batches)), fmt.Sprint([]error{nil, nil}, 2))
}

// A transaction that takes long does not delay the requests behind it.
func TestLongTransactionDoesNotDelayOthers(t *testing.T) {
	stalled := make(chan struct{})
	q := &batchQueue{run: func(members []*batchMember) {
		if members[0].removed == consumer(500) {
			<-stalled
		}
	}}
	q.hold()
	first := joinAll(t, q, removing(500), removing(501))
	q.free()
	for n := range 3 { // each joins a queue whose transaction does not end
		m := removing(502 + n)
		m.ctx = t.Context()
		ok(t, q.join(m))
		q.leave(m)
	}
	close(stalled)
	first()
}

// After a panic in a batch each of its requests runs its own transaction.
func TestPanicInBatch(t *testing.T) {
	q := &batchQueue{run: func(members []*batchMember) {
		members[0].done = true
		panic("a batch fails")
	}}
	q.hold()
	members := []*batchMember{removing(500), removing(501)}
	wait := joinAll(t, q, members...)
	q.free()
	equal(t, "errors", wait(), []error{nil, nil})
	if members[0].done || members[1].done {
		t.Error("a request is done by a batch that panicked")
	}
	await(t, "end", q.idle)
}

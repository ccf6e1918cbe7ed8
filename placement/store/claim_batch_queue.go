package store

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

const (
	maxBatchMembers = 64                     // the largest number of requests that share one transaction
	maxSingles      = 4                      // how many requests run their own transactions at the same time
	longTransaction = 100 * time.Millisecond // after which the queue does not wait for a transaction any more
)

// batchQueue lets claims and removals of many clients share transactions on MariaDB and PostgreSQL, where each
// statement and each COMMIT costs more than its rows.
//
// A request runs its own transaction at once if no batch runs and fewer than maxSingles others do so: a few clients
// never wait. Other requests wait; when a transaction ends, all that wait become the members of the next batch. One
// batch runs at a time. A transaction that takes longer than longTransaction, for example because another process holds
// a lock, does not delay the requests behind it.
type batchQueue struct {
	run func([]*batchMember) // runs one transaction for several members and sets their results

	off atomic.Bool // the server cannot run batches

	mu      sync.Mutex
	singles int  // transactions of single requests that the queue waits for
	batch   bool // the queue waits for a batch
	waiting []*batchMember
}

// usable reports whether requests may use the queue. A nil queue is not usable.
func (q *batchQueue) usable() bool { return q != nil && !q.off.Load() }

// batchMember is one request in a batch: claims, or the removal of one consumer's allocations.
type batchMember struct {
	ctx      context.Context
	claims   []Claim
	removed  resource.ConsumerID // without claims
	finished chan struct{}       // closed after the fields below are set

	slot    *batchSlot // if not nil, the request runs its own transaction and then releases the slot
	done    bool       // the batch has performed the request; if not set, the request runs its own transaction
	attempt claimAttempt
	removal removal
	began   time.Time
	err     error // a refusal, or that of a COMMIT with an unknown outcome
	locked  bool  // not done, because another transaction has locked a provider
}

// consumers lists the consumers that the request changes.
func (m *batchMember) consumers() []resource.ConsumerID {
	if len(m.claims) == 0 {
		return []resource.ConsumerID{m.removed}
	}
	return consumersOfClaims(m.claims)
}

// batchSlot is the right to run a transaction that the queue waits for.
type batchSlot struct {
	timer *time.Timer
	end   func()
}

// newSlot returns a slot, which is released after longTransaction at the latest. The caller has counted it.
func (q *batchQueue) newSlot(batch bool) *batchSlot {
	end := func() { q.ended(batch) }
	return &batchSlot{time.AfterFunc(longTransaction, end), end}
}

// release lets the next transaction run, unless the slot was released before.
func (l *batchSlot) release() {
	if l.timer.Stop() {
		l.end()
	}
}

// join waits for the member's batch, or for the right to run its own transaction: then done is not set. The caller
// must call leave after its own transaction. The error is that of a request that ended while it waited.
func (q *batchQueue) join(m *batchMember) error {
	m.finished = make(chan struct{})
	q.mu.Lock()
	if !q.batch && len(q.waiting) == 0 && q.singles < maxSingles {
		q.singles++
		q.mu.Unlock()
		m.slot = q.newSlot(false)
		return nil
	}
	q.waiting = append(q.waiting, m)
	q.mu.Unlock()
	select {
	case <-m.finished:
		return nil
	case <-m.ctx.Done():
	}
	if q.withdraw(m) {
		return fault.New(fault.Unavailable, "%w; nothing was changed", context.Cause(m.ctx))
	}
	<-m.finished // its transaction ends at the deadline
	return nil
}

// leave ends the member's own transaction.
func (q *batchQueue) leave(m *batchMember) {
	if m.slot != nil {
		m.slot.release()
	}
}

// withdraw removes a member that waits, and reports whether it was still waiting.
func (q *batchQueue) withdraw(m *batchMember) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.waiting {
		if other == m {
			q.waiting = append(q.waiting[:i:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// ended records the end of a batch or of another transaction, and starts the next one if requests wait.
func (q *batchQueue) ended(batch bool) {
	members := q.next(batch)
	if len(members) == 0 {
		return
	}
	slot := q.newSlot(len(members) > 1)
	if len(members) == 1 {
		members[0].slot = slot
		close(members[0].finished)
		return
	}
	go func() {
		q.runMembers(members)
		slot.release()
		for _, m := range members {
			close(m.finished)
		}
	}()
}

// runMembers runs a batch. After a panic all requests run their own transactions.
func (q *batchQueue) runMembers(members []*batchMember) {
	defer func() {
		if recover() != nil {
			for _, m := range members {
				m.done, m.err = false, nil
			}
		}
	}()
	q.run(members)
}

// next counts the end of a batch or of another transaction, and the beginning of the next one. It removes its members
// from the queue: the oldest first, and no two of the same consumer. While a batch runs there are none.
func (q *batchQueue) next(batch bool) (members []*batchMember) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if batch {
		q.batch = false
	} else {
		q.singles--
	}
	if q.batch {
		return nil
	}
	taken := map[resource.ConsumerID]bool{}
	var left []*batchMember
	for _, m := range q.waiting {
		same := false
		for _, id := range m.consumers() {
			same = same || taken[id]
		}
		if same || len(members) == maxBatchMembers {
			left = append(left, m)
			for _, id := range m.consumers() { // a third request of the same consumer stays behind the second one
				taken[id] = true
			}
			continue
		}
		for _, id := range m.consumers() {
			taken[id] = true
		}
		members = append(members, m)
	}
	q.waiting = left
	if len(members) == 1 {
		q.singles++
	} else {
		q.batch = len(members) > 1
	}
	return members
}

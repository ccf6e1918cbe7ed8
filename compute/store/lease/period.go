package lease

import (
	"context"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
)

// clientLease is the period in which a process may act on its lease without asking the database.
//
// Each confirmed renewal extends it to one term after the moment at which the renewal was sent. The term is shorter
// than the TTL of the lease in the database, which counts from the later moment at which the database executed the
// renewal. So the client's lease always ends first, also if the database does not answer any more.
type clientLease struct {
	term time.Duration

	mu        sync.Mutex
	sent      time.Time          // when the last confirmed renewal was sent; zero: there was none
	period    context.Context    // ends with the lease; the next renewal after that starts another one
	endPeriod context.CancelFunc // ends period
	timer     *time.Timer        // calls expire; nil before the first renewal
	ended     bool               // end was called
}

func newClientLease(term time.Duration) *clientLease {
	c := &clientLease{term: term}
	c.period, c.endPeriod = context.WithCancel(context.Background())
	c.endPeriod()
	return c
}

// renewed records that the database has confirmed a renewal that was sent at this moment.
func (c *clientLease) renewed(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || sent.Before(c.sent) { // a later renewal has been confirmed already
		return
	}
	c.sent = sent
	left := c.left(time.Now())
	if left <= 0 {
		return // the answer came too late
	}
	if c.period.Err() != nil {
		c.period, c.endPeriod = context.WithCancel(context.Background())
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(left, c.expire)
	} else {
		c.timer.Reset(left)
	}
}

// left returns how much of the lease is left; zero or less means that it has ended. The caller holds c.mu. It uses the
// monotonic clock, or the wall clock if that has advanced more: the monotonic clock stops while a machine is suspended.
func (c *clientLease) left(now time.Time) time.Duration {
	return c.term - max(now.Sub(c.sent), now.Round(0).Sub(c.sent.Round(0)))
}

// expire ends the period if the lease has ended.
func (c *clientLease) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.left(time.Now()); left > 0 { // it was renewed in the meantime
		c.timer.Reset(left)
		return
	}
	c.endPeriod()
}

// end ends the lease immediately and permanently.
func (c *clientLease) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.sent = true, time.Time{}
	c.endPeriod()
	if c.timer != nil {
		c.timer.Stop()
	}
}

// check returns nil during the lease, otherwise fault.Unavailable. It reads the clocks, so that it is correct even if
// the timer fires late.
func (c *clientLease) check() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.left(now) > 0 {
		return nil
	}
	c.endPeriod()
	if c.ended {
		return fault.New(fault.Unavailable,
			"nothing is sent to other services: this process has released compute's database or lost it")
	}
	ago := now.Sub(c.sent).Round(time.Millisecond)
	return fault.New(fault.Unavailable, "nothing is sent to other services: compute's database has not confirmed "+
		"the lease of this process for %s; check the database and the connection to it", ago)
}

// bind returns a context that ends with ctx, and with the lease if that ends first. Its cause is then the fault of
// check. stop releases it.
func (c *clientLease) bind(ctx context.Context) (bound context.Context, stop context.CancelFunc) {
	c.mu.Lock()
	period := c.period
	c.mu.Unlock()
	bound, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(period, func() { cancel(c.check()) })
	return bound, func() {
		forget()
		cancel(nil)
	}
}

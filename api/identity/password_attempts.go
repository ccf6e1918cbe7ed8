package identity

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// Checking a password takes 50 ms and more of a core. So the first sign-in of a caller would wait for all wrong
// passwords that others send. Those that fail have a share of their own: a caller is an address and a name, and after
// its first failure its passwords are checked one at a time, beside those of others, and after waits that grow.
const (
	maxHashing    = 3               // passwords of callers without failures that are checked at one time
	hashingOfOne  = 2               // of one address
	maxSuspects   = 32              // callers with failures that wait for their turn
	freeFailures  = 3               // failures without a wait
	failureMemory = 5 * time.Minute // how long a failure counts
	maxFailed     = 16384           // callers whose failures are remembered
)

// failureWaits are the waits after the failures beyond freeFailures.
var failureWaits = backoff.Exponential{First: time.Second, Max: 30 * time.Second}

// Attempts decides when the password of a caller is checked. It is safe for concurrent use.
type Attempts struct {
	hashing  chan struct{} // of callers without failures
	suspects chan struct{} // those with failures, that wait
	slow     chan struct{} // the one whose password is checked

	mu        sync.Mutex
	failed    map[Caller]failure
	addresses map[string]*addressSlots
}

// Caller is who sends a name and a password.
type Caller struct{ address, name string }

type failure struct {
	count int
	last  time.Time
}

// addressSlots bounds the checks of one address.
type addressSlots struct {
	slots chan struct{}
	users int
}

// NewAttempts returns attempts without failures.
func NewAttempts() *Attempts {
	return &Attempts{hashing: make(chan struct{}, maxHashing), suspects: make(chan struct{}, maxSuspects),
		slow: make(chan struct{}, 1), failed: map[Caller]failure{}, addresses: map[string]*addressSlots{}}
}

// CallerOf returns the caller of a request.
func CallerOf(r *http.Request, name string) Caller {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	return Caller{address, name}
}

// Begin waits until the password of a caller may be checked, and returns a function to call after that. It returns
// fault.Unavailable if the caller must wait after failures, or if the request has ended.
func (a *Attempts) Begin(ctx context.Context, c Caller, now time.Time) (end func(), err error) {
	before := a.failures(c, now)
	if before.count == 0 {
		return a.beginFirst(ctx, c.address)
	}
	if wait := before.wait() - now.Sub(before.last); wait > 0 {
		return nil, fault.New(fault.Unavailable, "%d sign-ins of %s from this address have failed; "+
			"correct the password, and try again in %s", before.count, c.name, wait.Round(time.Second)+time.Second)
	}
	select {
	case a.suspects <- struct{}{}:
	default:
		return nil, fault.New(fault.Unavailable, "too many callers with failed sign-ins wait for "+
			"their passwords to be checked; try again later")
	}
	defer func() { <-a.suspects }()
	if err := take(ctx, a.slow); err != nil {
		return nil, err
	}
	return func() { <-a.slow }, nil
}

// beginFirst is Begin for a caller without failures.
func (a *Attempts) beginFirst(ctx context.Context, address string) (end func(), err error) {
	own := a.enter(address)
	if err := take(ctx, own.slots); err != nil {
		a.leave(address)
		return nil, err
	}
	if err := take(ctx, a.hashing); err != nil {
		<-own.slots
		a.leave(address)
		return nil, err
	}
	return func() {
		<-a.hashing
		<-own.slots
		a.leave(address)
	}, nil
}

func take(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "the request ended before its password was checked: %w", ctx.Err())
	}
}

func (a *Attempts) enter(address string) *addressSlots {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.addresses[address]
	if own == nil {
		own = &addressSlots{slots: make(chan struct{}, hashingOfOne)}
		a.addresses[address] = own
	}
	own.users++
	return own
}

func (a *Attempts) leave(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	own := a.addresses[address]
	if own.users--; own.users == 0 {
		delete(a.addresses, address)
	}
}

// wait returns how long a caller must wait after its last failure.
func (f failure) wait() time.Duration {
	if f.count <= freeFailures {
		return 0
	}
	return failureWaits.Wait(f.count - freeFailures)
}

// failures returns the failures of a caller that still count.
func (a *Attempts) failures(c Caller, now time.Time) failure {
	a.mu.Lock()
	defer a.mu.Unlock()
	if f := a.failed[c]; now.Sub(f.last) < failureMemory {
		return f
	}
	delete(a.failed, c)
	return failure{}
}

// Fail records a failure of a caller. When too many callers are remembered, those whose last failure is old are
// forgotten, and if there are none, all.
func (a *Attempts) Fail(c Caller, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.failed[c]; !known && len(a.failed) >= maxFailed {
		for other, f := range a.failed {
			if now.Sub(f.last) > failureMemory/5 {
				delete(a.failed, other)
			}
		}
		if len(a.failed) >= maxFailed {
			clear(a.failed)
		}
	}
	a.failed[c] = failure{a.failed[c].count + 1, now}
}

// Succeed forgets the failures of a caller.
func (a *Attempts) Succeed(c Caller) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.failed, c)
}

// Package backoff computes how long to wait before a failed operation is tried again, and waits.
//
// Each user declares its own first and longest wait. Wait is a pure function of the number of failures if Jitter is.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Exponential is a wait that doubles with each consecutive failure. The zero value does not wait.
type Exponential struct {
	First  time.Duration                     // wait after the first failure
	Max    time.Duration                     // longest wait, before Jitter
	Jitter func(time.Duration) time.Duration // randomizes a wait; nil: the wait is exact
}

// Wait returns the wait after a number of consecutive failures: First after one or none, doubled for each further one
// up to Max, and then changed by Jitter.
func (e Exponential) Wait(failures int) time.Duration {
	wait := min(e.First, e.Max)
	for n := 1; n < failures && wait < e.Max; n++ {
		if wait > e.Max/2 { // 2*wait may overflow
			wait = e.Max
		} else {
			wait *= 2
		}
	}
	if e.Jitter == nil {
		return wait
	}
	return e.Jitter(wait)
}

// Around returns a random duration from 0.5 to 1.5 times d, so that operations that failed together are not tried again
// together. It is a Jitter. It returns d unchanged if d is not positive.
func Around(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	return d/2 + rand.N(d)
}

// UpperHalf returns a Jitter that returns 0.5 to 1 times a wait: half of it plus the fraction random() of the other
// half. random returns a number in [0, 1).
func UpperHalf(random func() float64) func(time.Duration) time.Duration {
	return func(d time.Duration) time.Duration {
		return d/2 + time.Duration(random()*float64(d/2))
	}
}

// Sleep waits for d. It returns the error of ctx, at once, if ctx has ended or ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err()
}

// Package saga is the one place that repeats, resumes and undoes. It carries records through their steps: it performs
// the step that is due, gives what came of it to the state machine, stores the next record, and goes on.
//
// It knows neither servers nor Placement: records, events and steps are type parameters.
package saga

import (
	"context"
	"time"
)

// Records keeps the records. Errors are the keeper's own; every error but Gone's is taken to pass.
type Records[R any] interface {
	// Read gives the record of a key.
	Read(ctx context.Context, key string) (R, error)
	// Change stores what next makes of the record, in one transaction with reading it, and gives what was
	// stored. next may be called more than once.
	Change(ctx context.Context, key string, next func(R) R) (R, error)
	// Unfinished lists, in order, at most limit keys after the given one whose record has steps to be done.
	Unfinished(ctx context.Context, after string, limit int) ([]string, error)
}

// Machine is the meaning of the records.
type Machine[R, E, S any] struct {
	// Next is the state machine.
	Next func(record R, event E, now time.Time) (R, []S)
	// Steps lists what is to be done for a record; the first is done first.
	Steps func(R) []S
	// Perform does a step and says what came of it. An error means that it could not be done now and
	// will be done again.
	Perform func(ctx context.Context, record R, step S) (E, error)
	// Stumbled makes the event of a step that failed with err and will be done again.
	Stumbled func(step S, err error) E
	// Gone reports whether an error of Records says that there is no such record any more.
	Gone func(error) bool
}

// Runner carries records through their steps: those of one key one after the other, those of different keys side by side.
type Runner[R, E, S any] struct {
	Records Records[R]
	Machine Machine[R, E, S]
	Workers int // how many steps are performed at once
}

// Tell gives an event from outside to a record, stores what comes of it, and sees to it that the steps that follow
// are performed. It may come at any time, also while a step of the record is being performed.
func (r *Runner[R, E, S]) Tell(ctx context.Context, key string, event E) (R, error) {
	panic("not yet")
}

// Wake has the steps of a record performed that was stored by somebody else.
func (r *Runner[R, E, S]) Wake(key string) {}

// Run resumes every record that has steps to be done, and performs steps until ctx ends. It returns nil
// then, once all that it started has ended.
func (r *Runner[R, E, S]) Run(ctx context.Context) error { return nil }

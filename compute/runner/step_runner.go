// Package runner performs the steps of stored records, retries failed steps, and resumes after a restart. It performs
// the step that is due, passes its result to the state machine, stores the next record, and continues. It never undoes
// a step: if something must be undone, the state machine returns a step for that.
//
// The runner depends neither on servers nor on Placement: records, events and steps are type parameters. The due steps
// follow from the stored record alone, so a step interrupted by a crash is performed again after the next start. Steps
// must be idempotent. Steps of one key never overlap; external events may arrive at any time.
package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/openberth/berth/backoff"
)

// Limits of retries and runs.
const (
	firstWait   = 100 * time.Millisecond // after the first failure of a step
	longestWait = 30 * time.Second       // there is no limit on the number of attempts
	longestStep = 2 * time.Minute        // timeout of one attempt
	// consecutive steps of one key; then it waits as after a failure, so that other keys can proceed
	longestRun     = 100
	resumePage     = 500 // keys per read when resuming
	defaultWorkers = 8   // number of workers if New gets 0
)

// Records stores the records. Every error is treated as temporary, except those for which Machine.Gone returns true.
type Records[R any] interface {
	// Read returns the record of a key.
	Read(ctx context.Context, key string) (R, error)
	// Change reads the record, passes it to next, and stores and returns the result, in one transaction. next may be
	// called more than once.
	Change(ctx context.Context, key string, next func(R) R) (R, error)
	// Unfinished lists, in order, at most limit keys greater than after whose record has due steps.
	Unfinished(ctx context.Context, after string, limit int) ([]string, error)
}

// Machine is the state machine of the records and its interface to the outside.
type Machine[R, E, S any] struct {
	// Next returns the record after the event and its due steps. It must be a pure function.
	Next func(record R, event E, now time.Time) (R, []S)
	// Steps lists the due steps of a record; the first is performed first.
	Steps func(R) []S
	// Perform performs a step and returns its result as an event. After an error the step is retried.
	Perform func(ctx context.Context, record R, step S) (E, error)
	// StepFailed returns the event of a step that failed with err and will be retried.
	StepFailed func(step S, err error) E
	// Pure reports whether a step has no effect outside and takes nearly no time, so that its result is stored only
	// together with that of the next step; nil: no step. After a crash in between both are performed again.
	Pure func(step S) bool
	// Group returns the group of a record, such as its project. Groups are served in turn. nil: all are in one group.
	Group func(record R) string
	// Gone reports whether an error of Records means that the record no longer exists.
	Gone func(error) bool
	// Stored is called after events have been applied and stored; nil: not called.
	Stored func(before, after R, now time.Time)
}

// Runner performs the steps of records: those of one key in sequence, those of different keys in parallel.
type Runner[R, E, S any] struct {
	Retry backoff.Exponential // the waits after failures of a step. Change it only before Run
	Now   func() time.Time    // the wall clock, for events. Set before Run

	// Carry returns ctx with the values of a request that steps keep, such as its trace; nil: none. Set before Run.
	Carry func(ctx, request context.Context) context.Context

	records Records[R]
	machine Machine[R, E, S]
	workers int

	mu      sync.Mutex
	changed *sync.Cond           // signalled when a worker may find a key in queue, or stopped is set
	queue   fairQueue            // keys ready for a worker, each once
	keys    map[string]*keyState // keys that have, or may have, due steps
	resumed bool                 // Resume has ended
	stopped bool                 // Run has ended or is ending: no step is started
}

// keyState is the state of one key. A key is in the queue, being worked on, or waiting for its timer.
type keyState struct {
	group      string // as of the last read of the record; empty before
	taken      string // the group that counts it while a worker has it
	queued     bool
	running    bool
	wokenAgain bool // woken while running: read the record again
	failures   int  // consecutive failures
	timer      *time.Timer
	request    context.Context // values of the last request that woke the key; nil: none
}

// New returns a runner that performs at most workers steps in parallel; 0 means 8. A few more are for groups of which
// no step is performed.
func New[R, E, S any](records Records[R], machine Machine[R, E, S], workers int) *Runner[R, E, S] {
	if workers <= 0 {
		workers = defaultWorkers
	}
	r := &Runner[R, E, S]{
		Retry:   backoff.Exponential{First: firstWait, Max: longestWait, Jitter: backoff.Around},
		records: records, machine: machine, workers: workers, Now: time.Now, keys: map[string]*keyState{},
	}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// Apply applies an external event to a record, stores and returns the result, and schedules the steps that follow. It
// may be called at any time, also while a step of the record is being performed.
func (r *Runner[R, E, S]) Apply(ctx context.Context, key string, event E) (R, error) {
	record, err := r.change(ctx, key, event)
	if err != nil || len(r.machine.Steps(record)) > 0 {
		// after an error too: the change may have been stored and only the answer lost
		r.wakeFrom(ctx, key, r.groupOf(record, err))
	}
	return record, err
}

// change applies events to a record and stores the result.
func (r *Runner[R, E, S]) change(ctx context.Context, key string, events ...E) (R, error) {
	now := r.Now()
	var before R
	after, err := r.records.Change(ctx, key, func(record R) R {
		before = record
		for _, event := range events {
			record, _ = r.machine.Next(record, event, now)
		}
		return record
	})
	if err == nil && r.machine.Stored != nil {
		r.machine.Stored(before, after, now)
	}
	return after, err
}

// Backlog returns how many records have, or may have, due steps, including those that are being worked on or wait after
// a failure.
func (r *Runner[R, E, S]) Backlog() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys)
}

// Wake schedules the steps of a record that was not stored by Apply. A key that waits after a failure is retried at
// once.
func (r *Runner[R, E, S]) Wake(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake(key, nil, "")
}

// WakeFrom is Wake for a record that a request has stored. The steps have what Carry takes of the request's context.
func (r *Runner[R, E, S]) WakeFrom(ctx context.Context, key string, record R) {
	r.wakeFrom(ctx, key, r.groupOf(record, nil))
}

// groupOf returns the group of a record that was read; empty after an error.
func (r *Runner[R, E, S]) groupOf(record R, err error) string {
	if err != nil || r.machine.Group == nil {
		return ""
	}
	return r.machine.Group(record)
}

// wakeFrom is WakeFrom with the group of the record, or an empty string if it is not known.
func (r *Runner[R, E, S]) wakeFrom(ctx context.Context, key, group string) {
	var request context.Context
	if r.Carry != nil { // not ctx itself, which would keep the whole request in memory
		request = r.Carry(context.Background(), ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wake(key, request, group)
}

// wake is Wake. The caller holds the lock. request may be nil, and group empty.
func (r *Runner[R, E, S]) wake(key string, request context.Context, group string) {
	j, known := r.keys[key]
	if !known {
		j = &keyState{}
		r.keys[key] = j
	}
	if request != nil {
		j.request = request
	}
	regroup := group != "" && j.queued && j.group == ""
	if regroup { // Resume has found it first, and knew no group: it need not wait behind all others of the start
		r.queue.remove(j.group, key)
	}
	if group != "" && (regroup || !j.queued) { // in the queue it is found by its group
		j.group = group
	}
	switch {
	case !known, regroup:
	case j.running:
		j.wokenAgain = true
		return
	case j.timer != nil:
		j.timer.Stop()
		j.timer = nil
	default:
		return // in the queue
	}
	r.enqueue(key)
}

// Alone calls do while no step of the key is performed. Steps that become due in the meantime are performed afterwards.
// It returns false and does not call do if steps of the key are waiting or being performed, or if the runner has ended.
func (r *Runner[R, E, S]) Alone(key string, do func()) (ok bool) {
	r.mu.Lock()
	if r.stopped || r.keys[key] != nil {
		r.mu.Unlock()
		return false
	}
	r.keys[key] = &keyState{running: true}
	r.mu.Unlock()
	defer r.release(key, false)
	do()
	return true
}

// enqueue appends a key to the queue. The caller holds the lock.
func (r *Runner[R, E, S]) enqueue(key string) {
	j := r.keys[key]
	j.queued = true
	r.queue.push(j.group, key)
	r.changed.Signal()
}

// Run performs steps until ctx ends. It calls Resume first unless that has been done. It returns nil after ctx has
// ended and all workers have stopped, or an error if Resume failed. Run may be called once.
func (r *Runner[R, E, S]) Run(ctx context.Context) error {
	r.mu.Lock()
	resumed := r.resumed
	r.mu.Unlock()
	if !resumed {
		if err := r.Resume(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	stop := context.AfterFunc(ctx, r.stop)
	defer stop()
	var working sync.WaitGroup
	for range r.workers + reserved {
		working.Go(func() { r.runWorker(ctx) })
	}
	working.Wait()
	return nil
}

// Resume wakes every record that has due steps; Run performs them. A caller can use it before Run to verify that the
// records are readable.
func (r *Runner[R, E, S]) Resume(ctx context.Context) error {
	after := ""
	for {
		keys, err := r.records.Unfinished(ctx, after, resumePage)
		if err != nil {
			return fmt.Errorf("cannot resume unfinished records: %w", err)
		}
		for _, key := range keys {
			r.Wake(key)
		}
		if len(keys) < resumePage {
			break
		}
		after = keys[len(keys)-1]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed = true
	return nil
}

// stop ends the workers and stops the timers.
func (r *Runner[R, E, S]) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	for _, j := range r.keys {
		if j.timer != nil {
			j.timer.Stop()
		}
	}
	r.changed.Broadcast()
}

// runWorker performs the steps of queued keys until the runner stops.
func (r *Runner[R, E, S]) runWorker(ctx context.Context) {
	for {
		key, request, ok := r.next()
		if !ok {
			return
		}
		with := ctx
		if request != nil {
			with = r.Carry(ctx, request)
		}
		failed := r.performAll(with, key)
		r.mu.Lock()
		r.queue.done(r.keys[key].taken)
		r.mu.Unlock()
		r.release(key, failed)
		r.changed.Broadcast() // another worker may be permitted to take a key now
	}
}

// next waits for a queued key and returns it with its request. ok is false if the runner has stopped.
func (r *Runner[R, E, S]) next() (key string, request context.Context, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.stopped {
		if key, ok := r.queue.pop(r.workers); ok {
			j := r.keys[key]
			j.running, j.queued, j.taken = true, false, j.group
			return key, j.request, true
		}
		r.changed.Wait()
	}
	return "", nil, false
}

// release returns a key from a worker: it is finished, queued again, or retried after a wait.
func (r *Runner[R, E, S]) release(key string, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.keys[key]
	j.running = false
	switch {
	case j.wokenAgain: // the record has changed meanwhile: retry at once
		j.wokenAgain = false
		r.enqueue(key)
	case failed && !r.stopped:
		j.failures++
		j.timer = time.AfterFunc(r.Retry.Wait(j.failures), func() { r.Wake(key) })
	default:
		delete(r.keys, key)
	}
}

// Step performs the first due step of a record, for a caller that does not call Run. It returns nil if no step is due,
// or if a step of the key is being performed. After an error the step is still due; Step does not wait before it is
// repeated.
func (r *Runner[R, E, S]) Step(ctx context.Context, key string) error {
	r.mu.Lock()
	if j := r.keys[key]; j != nil && j.running {
		r.mu.Unlock()
		return nil
	}
	j := r.keys[key]
	if j == nil {
		j = &keyState{}
	} else if j.queued {
		r.queue.remove(j.group, key)
	}
	r.keys[key] = &keyState{running: true, group: j.group}
	r.mu.Unlock()
	record, due, err := r.read(ctx, key)
	if due && err == nil {
		_, due, err = r.performNext(ctx, key, record)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.keys[key]; due || j.wokenAgain {
		j.running, j.wokenAgain = false, false
		r.enqueue(key)
		return err
	}
	delete(r.keys, key)
	return err
}

// performAll performs the steps of one record until none is due. failed is true if a step is still due.
func (r *Runner[R, E, S]) performAll(ctx context.Context, key string) (failed bool) {
	record, due, err := r.read(ctx, key)
	for range longestRun {
		if err != nil || !due {
			return err != nil
		}
		if record, due, err = r.performNext(ctx, key, record); err == nil {
			r.resetFailures(key)
		}
	}
	return due
}

// read returns a record. due is false if no step is due, or if the record is gone.
func (r *Runner[R, E, S]) read(ctx context.Context, key string) (record R, due bool, err error) {
	record, err = r.records.Read(ctx, key)
	if group := r.groupOf(record, err); group != "" {
		r.mu.Lock()
		r.keys[key].group = group
		r.mu.Unlock()
	}
	return r.withDue(record, err)
}

// performNext performs the first due step of a record, and the pure steps before it, and returns the next record. The
// record may have changed since it was read: the event of a step that is no longer due changes nothing. due is false if
// no step is due afterwards, or if the record is gone.
func (r *Runner[R, E, S]) performNext(ctx context.Context, key string, record R) (next R, due bool, err error) {
	var events []E
	next = record
	for steps := r.machine.Steps(record); len(steps) > 0; {
		step := steps[0]
		event, err := r.perform(ctx, next, step)
		if ctx.Err() != nil {
			return record, true, ctx.Err() // the process ends; the step stays due
		}
		if err != nil {
			// If the failure cannot be recorded, the wait is the same.
			_, _ = r.change(ctx, key, append(events, r.machine.StepFailed(step, err))...)
			return record, true, err
		}
		events = append(events, event)
		if r.machine.Pure == nil || !r.machine.Pure(step) {
			break
		}
		next, steps = r.machine.Next(next, event, r.Now())
	}
	next, err = r.change(ctx, key, events...)
	return r.withDue(next, err)
}

// withDue adds to the result of Records whether a step is due. It returns nil for a record that no longer exists.
func (r *Runner[R, E, S]) withDue(record R, err error) (_ R, due bool, _ error) {
	switch {
	case err == nil:
		return record, len(r.machine.Steps(record)) > 0, nil
	case r.machine.Gone(err):
		return record, false, nil
	}
	return record, true, err
}

// perform performs a step with a timeout.
func (r *Runner[R, E, S]) perform(ctx context.Context, record R, step S) (E, error) {
	ctx, cancel := context.WithTimeout(ctx, longestStep)
	defer cancel()
	return r.machine.Perform(ctx, record, step)
}

// resetFailures sets the wait of a key back to the first one after a success.
func (r *Runner[R, E, S]) resetFailures(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys[key].failures = 0
}

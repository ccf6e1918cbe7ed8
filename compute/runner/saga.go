// Package runner is the one place that repeats, resumes and undoes. It carries records through their steps: it performs
// the step that is due, gives what came of it to the state machine, stores the next record, and goes on.
//
// It knows neither servers nor Placement: records, events and steps are type parameters. What is to be done
// follows from the stored record alone, so a step cut short by a crash is performed again at the next
// start; steps must bear that. Steps of one key never overlap; events from outside may come at any time.
package runner

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// The measure of repeating.
const (
	firstWait   = 100 * time.Millisecond // Runner.Wait when it is not set
	longestWait = 30 * time.Second       // the longest wait between two tries. A due step is tried for ever: somebody relies on it
	longestStep = 2 * time.Minute        // how long one try may take
	longestRun  = 100                    // steps of one key in a row before the others have their turn and it waits as after a failure
	resumePage  = 500                    // keys read at once when resuming
	noWorkers   = 8                      // Workers when none are asked for
)

// Records keeps the records. Any error is taken to pass, but for those that Machine.Gone knows.
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
	// Next is the state machine. It must be pure.
	Next func(record R, event E, now time.Time) (R, []S)
	// Steps lists what is to be done for a record; the first is done first.
	Steps func(R) []S
	// Perform does a step and says what came of it. An error means that it could not be done now and
	// will be done again.
	Perform func(ctx context.Context, record R, step S) (E, error)
	// Stumbled makes the event of a step that failed with err and will be done again.
	StepFailed func(step S, err error) E
	// Gone reports whether an error of Records says that there is no such record any more.
	Gone func(error) bool
}

// Runner carries records through their steps: those of one key one after the other, those of different keys side by side.
type Runner[R, E, S any] struct {
	Wait time.Duration // after the first failure of a step; it doubles. Set before Run

	records Records[R]
	machine Machine[R, E, S]
	workers int

	now    func() time.Time
	jitter func(time.Duration) time.Duration // spreads a wait

	mu      sync.Mutex
	more    *sync.Cond      // queue has grown, or stopped is set
	queue   []string        // keys whose turn has come, each once
	jobs    map[string]*job // keys that are known to have, or may have, something to be done
	resumed bool            // what was on its way has been woken
	over    bool            // Run has ended or is ending: nothing is begun any more
}

// job is one key on its way. It is in the queue, or in the hands of a worker, or waiting for its timer.
type job struct {
	running bool
	again   bool // woken while running: look once more
	tries   int  // failures in a row
	timer   *time.Timer
}

// New makes a runner that performs at most workers steps at once; 0 means 8.
func New[R, E, S any](records Records[R], machine Machine[R, E, S], workers int) *Runner[R, E, S] {
	if workers <= 0 {
		workers = noWorkers
	}
	r := &Runner[R, E, S]{Wait: firstWait, records: records, machine: machine, workers: workers, now: time.Now, jitter: spread, jobs: map[string]*job{}}
	r.more = sync.NewCond(&r.mu)
	return r
}

// spread makes half to one and a half of a wait, so that those who failed together do not come back together.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// Tell gives an event from outside to a record, stores what comes of it, and sees to it that the steps that follow
// are performed. It may come at any time, also while a step of the record is being performed.
func (r *Runner[R, E, S]) Apply(ctx context.Context, key string, event E) (R, error) {
	record, err := r.change(ctx, key, event)
	if err != nil || len(r.machine.Steps(record)) > 0 {
		r.Wake(key) // with an error too: it may be that only the answer was lost
	}
	return record, err
}

func (r *Runner[R, E, S]) change(ctx context.Context, key string, event E) (R, error) {
	now := r.now()
	return r.records.Change(ctx, key, func(record R) R {
		next, _ := r.machine.Next(record, event, now)
		return next
	})
}

// Wake has the steps of a record performed, for one that was stored by somebody else. A key that waits after a failure is
// tried at once.
func (r *Runner[R, E, S]) Wake(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[key]
	switch {
	case j == nil:
		j = &job{}
		r.jobs[key] = j
	case j.running:
		j.again = true
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
	if r.over || r.jobs[key] != nil {
		r.mu.Unlock()
		return false
	}
	r.jobs[key] = &job{running: true}
	r.mu.Unlock()
	defer r.put(key, false)
	do()
	return true
}

// enqueue puts a key last; the lock is held.
func (r *Runner[R, E, S]) enqueue(key string) {
	r.queue = append(r.queue, key)
	r.more.Signal()
}

// Run performs steps until ctx ends. It resumes what was on its way first, unless Resume has done so. It returns nil
// then, once all that it started has ended; an error when it could not resume. A runner runs once.
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
	for range r.workers {
		working.Go(func() { r.work(ctx) })
	}
	working.Wait()
	return nil
}

// Resume wakes every record that has steps to be done; Run performs them. It is for those who want to know before Run that
// the records can be read.
func (r *Runner[R, E, S]) Resume(ctx context.Context) error {
	after := ""
	for {
		keys, err := r.records.Unfinished(ctx, after, resumePage)
		if err != nil {
			return fmt.Errorf("cannot resume what was on its way: %w", err)
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

// stop lets the workers go home and disarms the timers.
func (r *Runner[R, E, S]) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, j := range r.jobs {
		if j.timer != nil {
			j.timer.Stop()
		}
	}
	r.more.Broadcast()
}

// work is one worker.
func (r *Runner[R, E, S]) work(ctx context.Context) {
	for {
		key, ok := r.take()
		if !ok {
			return
		}
		r.put(key, r.carry(ctx, key))
	}
}

// take waits for a key whose turn has come; ok is false when the runner is over.
func (r *Runner[R, E, S]) take() (key string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) == 0 && !r.over {
		r.more.Wait()
	}
	if r.over {
		return "", false
	}
	key, r.queue = r.queue[0], r.queue[1:]
	r.jobs[key].running = true
	return key, true
}

// put takes a key back from a worker: done, to be looked at once more, or to be tried again after a wait.
func (r *Runner[R, E, S]) put(key string, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j := r.jobs[key]
	j.running = false
	switch {
	case j.again: // somebody has changed the record meanwhile; that is worth a try at once
		j.again = false
		r.enqueue(key)
	case failed && !r.over:
		wait := r.jitter(min(r.Wait<<min(j.tries, 20), longestWait))
		j.tries++
		j.timer = time.AfterFunc(wait, func() { r.Wake(key) })
	default:
		delete(r.jobs, key)
	}
}

// carry performs the steps of one record until there are none. failed says that something is still to be done.
func (r *Runner[R, E, S]) carry(ctx context.Context, key string) (failed bool) {
	for range longestRun {
		record, err := r.records.Read(ctx, key)
		if err != nil {
			return !r.machine.Gone(err)
		}
		steps := r.machine.Steps(record)
		if len(steps) == 0 {
			return false
		}
		event, err := r.perform(ctx, record, steps[0])
		if ctx.Err() != nil {
			return true // the process ends; the step stays due
		}
		if err != nil {
			// If the failure cannot even be noted, the wait is the same.
			_, _ = r.change(ctx, key, r.machine.StepFailed(steps[0], err))
			return true
		}
		if _, err := r.change(ctx, key, event); err != nil {
			return !r.machine.Gone(err)
		}
		r.succeeded(key)
	}
	return true
}

func (r *Runner[R, E, S]) perform(ctx context.Context, record R, step S) (E, error) {
	ctx, cancel := context.WithTimeout(ctx, longestStep)
	defer cancel()
	return r.machine.Perform(ctx, record, step)
}

// succeeded begins the waits anew.
func (r *Runner[R, E, S]) succeeded(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.jobs[key].tries = 0
}

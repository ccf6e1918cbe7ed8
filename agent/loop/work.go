package loop

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// warnAfter is the number of failures after which a server's fault becomes a condition of the host.
const warnAfter = 3

// serverWork is the state of the work on one server until it is reconciled.
type serverWork struct {
	cancel        context.CancelFunc // cancels the goroutine that works on the server; nil when there is none
	failures      int                // attempts that failed
	buildFailures int                // builds that failed in the hypervisor
	retryAt       time.Time          // earliest time of the next attempt
	waitingSince  time.Time          // start of the wait for other servers to leave
}

// workLoop starts a goroutine for each server that is not reconciled, until ctx ends and all goroutines have ended.
func (a *Agent) workLoop(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		wait := a.dispatch(ctx, &workers)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-a.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// dispatch starts the work that can start, removals first because they free devices. It returns the maximum wait until
// the next call.
func (a *Agent) dispatch(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, wait := a.o.Now(), a.o.Rescan
	raise, leaving := a.due()
	a.forget(raise, leaving)
	a.setUnassignedCondition()
	owing := a.pendingRenames()
	for _, id := range slices.Concat(leaving, raise) {
		if by, waits := owing[id]; waits && by != id {
			continue // the entry that replaces this one must apply its rename first
		}
		if was := a.assignments.servers[id].PreviousID; owing[was] == id && a.cancelWork(was) {
			continue
		}
		j := a.serverWorks[id]
		if j == nil {
			j = &serverWork{}
			a.serverWorks[id] = j
		}
		if j.cancel != nil {
			continue
		}
		if until := j.retryAt.Sub(now); until > 0 {
			wait = min(wait, until)
			continue
		}
		want, wanted := a.assignments.servers[id]
		removal, named := a.assignments.remove[id]
		at := a.assignments.version(removal)
		if wanted && a.building >= a.o.Parallel {
			continue // finish signals workLoop
		}
		own, cancel := context.WithCancel(ctx)
		j.cancel = cancel
		if wanted {
			a.building++
		}
		workers.Go(func() {
			var err error
			switch {
			case wanted:
				err = a.ensureGuest(own, want, j)
			case named:
				err = a.removeGuest(own, removal, at)
			default:
				err = a.dropClaims(own, id)
			}
			outdated := own.Err() != nil
			cancel()
			a.finish(id, j, wanted, outdated, err)
		})
	}
	return wait
}

// cancelWork cancels the work on an id and reports whether there was any. a.mu is held.
func (a *Agent) cancelWork(id string) bool {
	j := a.serverWorks[id]
	if j == nil || j.cancel == nil {
		return false
	}
	j.cancel()
	return true
}

// due lists the servers that are not reconciled, by id. It returns none before compute has sent assignments, while
// they are not followed, and while another agent serves the host. a.mu is held.
func (a *Agent) due() (raise, leaving []string) {
	if !a.assignments.received || a.fenced || a.notFollowed != "" {
		return nil, nil
	}
	for _, id := range slices.Sorted(maps.Keys(a.assignments.servers)) {
		if !a.settled(a.assignments.servers[id]) {
			raise = append(raise, id)
		}
	}
	return raise, a.leavingIDs()
}

// settled reports whether compute has the final phase of an assignment and the guest still matches it. a.mu is held.
func (a *Agent) settled(want host.Server) bool {
	f, known := a.acked[want.ID]
	if !known || !reflect.DeepEqual(f.want, want) {
		return false
	}
	if f.phase != host.Running && f.phase != host.Stopped && f.phase != host.Refused {
		return true
	}
	g, there := a.guests[want.ID]
	return there && !g.Departed && matches(g, want)
}

// forget deletes the state of work on servers that are not due. a.mu is held.
func (a *Agent) forget(due ...[]string) {
	all := slices.Concat(due...)
	for id, j := range a.serverWorks {
		if j.cancel == nil && !slices.Contains(all, id) {
			delete(a.serverWorks, id)
			a.condition("server " + id)
		}
	}
}

// finish records the result of one attempt. An outdated attempt was cancelled because the assignments changed or the
// agent stops.
func (a *Agent) finish(id string, j *serverWork, wanted, outdated bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer signal(a.wake)
	j.cancel = nil
	if wanted {
		a.building--
	}
	if err == nil || outdated {
		j.failures, j.buildFailures, j.waitingSince = 0, 0, time.Time{}
		return // dispatch checks whether more work is due
	}
	j.failures++
	j.retryAt = a.o.Now().Add(a.backoff(j.failures))
	if _, refused := errors.AsType[*refusedError](err); refused {
		j.retryAt = a.o.Now().Add(refusedWait(j.failures))
	}
	a.log.Info("server not reconciled, will retry", "server", id, "attempts", j.failures, "error", err)
	if j.failures >= warnAfter {
		a.condition("server "+id, "server "+id+": "+fault.TextOf(err))
	}
}

// refusedWait returns the wait after a number of consecutive refusals of the hypervisor: from 5 s, doubling, to 5 min.
func refusedWait(times int) time.Duration {
	const first, most = 5 * time.Second, 5 * time.Minute
	return min(most, first<<min(max(times-1, 0), 10))
}

// retryNow lets the servers that wait for devices try again at once. a.mu is held.
func (a *Agent) retryNow() {
	for _, j := range a.serverWorks {
		if !j.waitingSince.IsZero() {
			j.retryAt = time.Time{}
		}
	}
	signal(a.wake)
}

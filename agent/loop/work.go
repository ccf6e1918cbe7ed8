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

// loud is after how many failures a server's trouble becomes a condition of the host.
const loud = 3

// job is the way of one server to where it shall be.
type job struct {
	cancel   context.CancelFunc // ends the goroutine at work on it; nil when there is none
	attempts int                // that failed
	builds   int                // of the hypervisor, that failed
	retry    time.Time          // not before
	waits    time.Time          // since when it waits for others to leave
}

// work starts a goroutine for each server that is not where it shall be, until ctx ends and all of them have ended.
func (a *Agent) work(ctx context.Context) {
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

// dispatch starts what can be started, those first that free something, and says when to look again at the latest.
func (a *Agent) dispatch(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	now, wait := a.o.Now(), a.o.Rescan
	raise, leaving := a.due()
	a.forget(raise, leaving)
	a.tellUnassigned()
	owing := a.owing()
	for _, id := range slices.Concat(leaving, raise) {
		if by, waits := owing[id]; waits && by != id {
			continue // another entry takes over what stands here, first of all
		}
		if was := a.line.servers[id].PreviousID; owing[was] == id && a.busy(was) {
			continue
		}
		j := a.jobs[id]
		if j == nil {
			j = &job{}
			a.jobs[id] = j
		}
		if j.cancel != nil {
			continue
		}
		if until := j.retry.Sub(now); until > 0 {
			wait = min(wait, until)
			continue
		}
		want, wanted := a.line.servers[id]
		removal, named := a.line.remove[id]
		at := a.line.at(removal)
		if wanted && a.raising >= a.o.Parallel {
			continue // the end of another wakes us
		}
		own, cancel := context.WithCancel(ctx)
		j.cancel = cancel
		if wanted {
			a.raising++
		}
		workers.Go(func() {
			var err error
			switch {
			case wanted:
				err = a.raise(own, want, j)
			case named:
				err = a.remove(own, removal, at)
			default:
				err = a.discard(own, id)
			}
			outdated := own.Err() != nil
			cancel()
			a.finish(id, j, wanted, outdated, err)
		})
	}
	return wait
}

// busy says whether somebody is at work on an id, and ends that. a.mu is held.
func (a *Agent) busy(id string) bool {
	j := a.jobs[id]
	if j == nil || j.cancel == nil {
		return false
	}
	j.cancel()
	return true
}

// due lists the servers that are not where they shall be, by id. Before compute has sent assignments, while they are
// not followed, and while another agent serves the host, none is. a.mu is held.
func (a *Agent) due() (raise, leaving []string) {
	if !a.line.heard || a.displaced || a.behind != "" {
		return nil, nil
	}
	for _, id := range slices.Sorted(maps.Keys(a.line.servers)) {
		if !a.settled(a.line.servers[id]) {
			raise = append(raise, id)
		}
	}
	return raise, a.leavingIDs()
}

// settled says whether compute knows the end of what it wants. a.mu is held.
func (a *Agent) settled(want host.Server) bool {
	f, known := a.acked[want.ID]
	if !known || !reflect.DeepEqual(f.want, want) {
		return false
	}
	if f.phase != host.Running && f.phase != host.Stopped && f.phase != host.Refused {
		return true
	}
	g, there := a.guests[want.ID]
	return there && !g.Departed && asWanted(g, want)
}

// forget drops the jobs of servers that need none any more. a.mu is held.
func (a *Agent) forget(due ...[]string) {
	all := slices.Concat(due...)
	for id, j := range a.jobs {
		if j.cancel == nil && !slices.Contains(all, id) {
			delete(a.jobs, id)
			a.condition("server " + id)
		}
	}
}

// finish notes how a job ended. An outdated one was ended by a line that says something else, or by the agent's own end.
func (a *Agent) finish(id string, j *job, wanted, outdated bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer poke(a.wake)
	j.cancel = nil
	if wanted {
		a.raising--
	}
	if err == nil || outdated {
		j.attempts, j.builds, j.waits = 0, 0, time.Time{}
		return // dispatch sees whether there is more to do
	}
	j.attempts++
	j.retry = a.o.Now().Add(a.backoff(j.attempts))
	if _, refused := errors.AsType[*refusedError](err); refused {
		j.retry = a.o.Now().Add(refusedWait(j.attempts))
	}
	a.log.Info("a server is not yet where it shall be, will try again", "server", id, "attempts", j.attempts, "error", err)
	if j.attempts >= loud {
		a.condition("server "+id, "server "+id+": "+fault.TextOf(err))
	}
}

// refusedWait is how long to wait after the hypervisor has refused something so many times in a row: from 5 s,
// doubling, to 5 min.
func refusedWait(times int) time.Duration {
	const first, most = 5 * time.Second, 5 * time.Minute
	return min(most, first<<min(max(times-1, 0), 10))
}

// hurry lets the servers that wait for devices try at once. a.mu is held.
func (a *Agent) hurry() {
	for _, j := range a.jobs {
		if !j.waits.IsZero() {
			j.retry = time.Time{}
		}
	}
	poke(a.wake)
}

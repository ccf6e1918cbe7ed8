package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
)

// kernel is what all models share: random numbers, clocks, the log, names and the first failure.
type kernel struct {
	options    Options
	broken     string
	rng        *rand.Rand
	noFailures bool // no failures now
	next       int  // for names

	clock      time.Duration // since the simulation began; it is never set
	agentClock time.Duration // of agents, see slowness
	skew       time.Duration // by how much the wall clock of compute is wrong
	now        time.Time     // by that wall clock
	jumped     time.Duration // when the wall clock was set last
	jump       time.Duration // by how much

	n       int               // of the operation
	noted   int               // operations and what followed from them that are in the log
	ownerOf map[string]string // the server of each consumer that ever existed
	log     []entry
	failure string
	report  Report
}

// entry is one operation or one change of a server, for the log.
type entry struct {
	n            int
	kind, of, at string
	text         string
	e            lifecycle.Event // that has changed the server; nil: the event of a step
	was, is      string
}

// slowness is how much slower than the clock of compute the clock of agents is, while there are failures: an operation
// of the simulation takes a second of compute's clock, and an agent of a cloud performs many effects in that time.
const slowness = 20

// beginning returns the start of the simulated time. Each operation takes a second.
func beginning() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// skewAt returns the error of the wall clock at a moment, which must not be before the last jump but one.
func (k *kernel) skewAt(at time.Duration) time.Duration {
	if at < k.jumped {
		return k.skew - k.jump
	}
	return k.skew
}

// chance returns true once in n calls, and never if the failure is left out or while there are no failures.
func (k *kernel) chance(failure string, n int) bool {
	return !k.noFailures && k.rng.IntN(n) == 0 && !slices.Contains(k.options.Without, failure)
}

func (k *kernel) halfTheTime() bool { return k.rng.IntN(2) == 0 }

// oneIn returns true once in n calls on average.
func (k *kernel) oneIn(n int) bool { return k.rng.IntN(n) == 0 }

func (k *kernel) name(prefix string) string {
	k.next++
	return fmt.Sprintf("%s%d", prefix, k.next)
}

// call is a call of the hypervisor. It may fail before it has an effect, and its answer may be lost.
func (k *kernel) call(do func() error) error { return k.faulty(Builds, 150, do) }

// faulty does something whose request or answer is lost one time in seldom.
func (k *kernel) faulty(failure string, seldom int, do func() error) error {
	if k.chance(failure, seldom) {
		return errDown
	}
	err := do()
	if k.chance(failure, seldom) {
		return errDown
	}
	return err
}

// oftenDone returns the kind of operation that is done more often in this simulation; empty if there is none.
func (k *kernel) oftenDone() string { return cmp.Or(k.options.Often, often[k.broken]) }

// often is the kind of operation that is done more often, so that what is broken on purpose has consequences soon.
var often = map[string]string{Demolish: Restore, Ungated: Restore, WallClock: Jump, Uncounted: "late"}

// agentTime is the time of agents.
func (k *kernel) agentTime() time.Time { return beginning().Add(k.agentClock) }

// agentWait converts a time of compute to one of agents.
func (k *kernel) agentWait(d time.Duration) time.Duration {
	if k.noFailures {
		return d
	}
	return d / slowness
}

// wait is how the conductor waits for a channel: it does not, and its step is repeated later.
func (k *kernel) wait(_ context.Context, until <-chan struct{}) error {
	select {
	case <-until:
		return nil
	default:
		k.report.Happened["held back by the gate"]++
		return errDown
	}
}

// occupied is how a start of an agent learns that another one serves the host. wait is by compute's clock, 0: asking
// again is of no use.
func (k *kernel) occupied(wait time.Duration, why error) error {
	if wait == 0 {
		return fault.Wrap(fault.Conflict, why)
	}
	return fault.Wrap(fault.Conflict, &host.Occupied{Wait: k.agentWait(wait) + time.Millisecond, Err: why})
}

var errDown = fault.New(fault.Unavailable, "the service does not answer")

func notFound(what, id string) error {
	return fault.New(fault.NotFound, "there is no %s %s", what, id)
}

// The context of all calls: nothing in the simulation waits.
var background = context.Background()

// note logs and counts an operation.
func (k *kernel) note(kind, of, at, text string) {
	const most = 8000
	k.noted++
	if k.report.Done[kind]++; len(k.log) >= most {
		k.log = append(k.log[:0], k.log[most/2:]...)
	}
	k.log = append(k.log, entry{n: k.n, kind: kind, of: of, at: at, text: text})
}

// logChange logs a change of a server. e is the event that has changed it; nil: that of a step.
func (k *kernel) logChange(before lifecycle.Server, e lifecycle.Event, now lifecycle.Server) {
	if before.Stage() != now.Stage() {
		k.report.Happened[now.Stage()]++
	} else if e == nil {
		return
	}
	k.log = append(k.log, entry{n: k.n, kind: "·", of: now.ID, at: now.Host, e: e, was: before.Stage(), is: now.Stage()})
}

// excerpt returns the last operations that concern what the failure names.
func (k *kernel) excerpt() string {
	const most = 90
	words := strings.FieldsFunc(k.failure, func(r rune) bool { return strings.ContainsRune(" ,:;()", r) })
	for _, word := range slices.Clone(words) {
		if owner := k.ownerOf[word]; owner != "" {
			words = append(words, owner)
		}
	}
	var lines []string
	for _, e := range slices.Backward(k.log) {
		if len(lines) == most {
			break
		}
		if slices.Contains(words, e.of) || slices.Contains(words, e.at) ||
			e.of != "" && slices.Contains(words, k.ownerOf[e.of]) {
			if e.was != e.is || e.e != nil {
				e.text = fmt.Sprintf("%s → %s  %T %s", e.was, e.is, e.e, brief(e.e))
			}
			lines = append(lines, strings.TrimRight(fmt.Sprintf("  %7d %-9s %-8s %-6s %s", e.n, e.kind, e.of, e.at, e.text),
				" "))
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// brief returns the important fields of an event.
func brief(e lifecycle.Event) string {
	switch e := e.(type) {
	case lifecycle.Report:
		return fmt.Sprintf("%d: %T %s", e.Number, e.Event, brief(e.Event))
	case lifecycle.Chosen:
		return e.Choices[0].Host
	case lifecycle.ActionRequested:
		return e.ID + " " + string(e.Action)
	case lifecycle.GuestClaimed:
		return e.Host + " as " + e.Consumer
	case lifecycle.GuestRunning:
		return e.Host + " as " + e.Consumer
	case lifecycle.GuestStopped:
		return e.Host + " as " + e.Consumer
	case lifecycle.NoValidHost:
		return e.Reason
	case lifecycle.GuestMigrated, lifecycle.GuestGone, lifecycle.GuestFailed, lifecycle.ClaimLost, lifecycle.Refused,
		lifecycle.HostDead, lifecycle.LeftoverReleased:
		return fmt.Sprint(e)
	}
	return ""
}

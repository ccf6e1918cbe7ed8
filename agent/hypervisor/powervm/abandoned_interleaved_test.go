package powervm_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/powervm"
	"github.com/openberth/berth/agent/powervm/uom"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
)

// actor is a goroutine that uses the driver and pauses before one of its calls.
type actor struct {
	calls, pause int
	paused       chan struct{} // closed when it pauses or has ended
	proceed      chan struct{} // closed when it may continue
	err          chan error
}

type actorKey struct{}

// run starts an actor, and returns when it pauses or has ended.
func run(ctx context.Context, pause int, do func(ctx context.Context) error) *actor {
	a := &actor{pause: pause, paused: make(chan struct{}), proceed: make(chan struct{}), err: make(chan error, 1)}
	go func() {
		a.err <- do(context.WithValue(ctx, actorKey{}, a))
		if a.calls < a.pause {
			close(a.paused)
		}
	}()
	<-a.paused
	return a
}

// end lets an actor continue, and returns its result.
func (a *actor) end() error {
	close(a.proceed)
	return <-a.err
}

// turns is the server, whose callers pause.
type turns struct{ powervm.API }

func before(ctx context.Context) {
	a, is := ctx.Value(actorKey{}).(*actor)
	if !is {
		return
	}
	if a.calls++; a.calls == a.pause {
		close(a.paused)
		<-a.proceed
	}
}

func (t turns) ManagedSystem(ctx context.Context) (uom.ManagedSystem, bool, error) {
	before(ctx)
	return t.API.ManagedSystem(ctx)
}

func (t turns) Partitions(ctx context.Context, system string) ([]uom.Partition, error) {
	before(ctx)
	return t.API.Partitions(ctx, system)
}

func (t turns) Partition(ctx context.Context, uuid string) (uom.Partition, error) {
	before(ctx)
	return t.API.Partition(ctx, uuid)
}

func (t turns) Create(ctx context.Context, path string, object *uom.Element) (*uom.Element, error) {
	before(ctx)
	return t.API.Create(ctx, path, object)
}

func (t turns) Update(ctx context.Context, path string, change func(object *uom.Element) error) error {
	before(ctx)
	return t.API.Update(ctx, path, change)
}

func (t turns) Delete(ctx context.Context, path string) error {
	before(ctx)
	return t.API.Delete(ctx, path)
}

func (t turns) RunJob(ctx context.Context, object, operation string, parameters ...uom.JobParameter) error {
	before(ctx)
	return t.API.RunJob(ctx, object, operation, parameters...)
}

// A server returns to the host while the late partition of its earlier attempt appears and is removed, interleaved at
// each call of both and with the creation at each time. A guest that was built stays, and no other partition is left.
func TestRemovalAndNewBuildInterleaved(t *testing.T) {
	const most = 6 // calls of each
	for _, sweepFirst := range []bool{true, false} {
		for late := range 3 {
			for first := 1; first <= most; first++ {
				for second := 1; second <= most; second++ {
					name := fmt.Sprintf("sweep first %t, created at %d, paused before %d and %d", sweepFirst, late, first, second)
					interleave(t, name, sweepFirst, late, first, second)
				}
			}
		}
	}
}

// interleave runs the first actor until it pauses, then the second one, then both to their ends. The late creation is
// performed at one of the three changes.
func interleave(t *testing.T, name string, sweepFirst bool, late, first, second int) {
	t.Helper()
	n := startNovaLink(t)
	h := powervm.New(turns{n.client(t)}, powervm.Options{Dir: t.TempDir(), Recheck: time.Nanosecond})
	g := guest("a", firstSlot+1)
	n.Inject(novalink.Fault{Method: "PUT", Path: "/LogicalPartition", Late: true})
	if err := h.Build(t.Context(), g); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	if err := h.Destroy(t.Context(), g.ID); err != nil {
		t.Fatal(err)
	}
	built := false
	build := func(ctx context.Context) error {
		err := h.Build(ctx, g)
		built = err == nil
		return err
	}
	doFirst, doSecond := h.Sweep, build
	if !sweepFirst {
		doFirst, doSecond = build, h.Sweep
	}
	perform := func(at int) {
		if at == late {
			n.PerformLate()
		}
	}
	perform(0)
	a := run(t.Context(), first, doFirst)
	perform(1)
	b := run(t.Context(), second, doSecond)
	perform(2)
	errs := []error{a.end(), b.end()}
	if built {
		wantOnly(t, h, n, name, g)
	}
	for try := 0; !built && try < 4; try++ { // as the agent and Maintain do
		errs = append(errs, h.Sweep(t.Context()), build(t.Context()))
	}
	if !built {
		t.Errorf("%s: not built: %v", name, errs)
	}
	if err := h.Sweep(t.Context()); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	wantOnly(t, h, n, name, g)
	untilDone(t, func() error { return h.Destroy(t.Context(), g.ID) })
	if count := partitionCount(n); count != 0 {
		t.Errorf("%s: %d partitions are left", name, count)
	}
}

// wantOnly checks that a guest is the only one and runs in the only partition.
func wantOnly(t *testing.T, h *powervm.Hypervisor, n *testSystem, name string, g hypervisor.Guest) {
	t.Helper()
	var list []hypervisor.Guest
	untilDone(t, func() (err error) { list, err = h.Guests(t.Context()); return err })
	if len(list) != 1 || list[0].ID != g.ID || list[0].Stopped || list[0].Remark != "" || partitionCount(n) != 1 {
		t.Errorf("%s: guests %+v, %d partitions", name, list, partitionCount(n))
	}
}

package hypervisortest

import (
	"context"
	"reflect"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
)

// Faulty is a host on which a test can interrupt a driver. Each subtest has a host of its own, by its name.
type Faulty struct {
	// Open returns the driver of the host after a restart of the agent.
	Open func(t *testing.T) hypervisor.Hypervisor
	// Cut returns a driver that ends, as with kill -9 of its agent, at a point of its work: 2n is before its effect n on
	// the host (from 0), 2n+1 is after that effect and before its answer. Calls then return any fault. reached reports
	// whether the driver has come to this point.
	Cut func(t *testing.T, point int) (h hypervisor.Hypervisor, reached func() bool)
	// Restart ends the hypervisor's daemon with SIGKILL and starts it again. Guests continue to run.
	Restart func(t *testing.T)
	// Refuse lets the host fail in the middle of the definition of a guest, until the returned function is called.
	Refuse func(t *testing.T) (accept func())
	// Left returns what guests have left on the host: definitions and files, except those that hosts share.
	Left func(t *testing.T) []string
}

// RunFaults tests what a driver does when it or its hypervisor is interrupted: a new driver lists each guest completely
// or not at all, the repeated call completes the work, and Destroy leaves nothing.
func RunFaults(t *testing.T, host Faulty) {
	plain := Guest("a", 1)
	stopped, rebuilt, renamed := plain, plain, plain
	stopped.Stopped = true
	rebuilt.Build = 1
	renamed.ID, renamed.Server = ID("b"), ID("a")
	build := func(g hypervisor.Guest) call {
		return func(ctx context.Context, h hypervisor.Hypervisor) error { return h.Build(ctx, g) }
	}
	for name, one := range map[string]interrupted{
		"build":   {nil, build(plain), &plain},
		"stop":    {&plain, build(stopped), &stopped},
		"start":   {&stopped, build(plain), &plain},
		"rebuild": {&plain, build(rebuilt), &rebuilt},
		"rename": {&plain, func(ctx context.Context, h hypervisor.Hypervisor) error {
			return h.Rename(ctx, ID("a"), ID("b"), ID("a"))
		}, &renamed},
		"rename back": {&renamed, func(ctx context.Context, h hypervisor.Hypervisor) error {
			return h.Rename(ctx, ID("b"), ID("a"), "")
		}, &plain},
		"destroy": {&plain, func(ctx context.Context, h hypervisor.Hypervisor) error {
			return h.Destroy(ctx, ID("a"))
		}, nil},
	} {
		t.Run("an agent killed during "+name, func(t *testing.T) { one.atEachPoint(t, host) })
	}
	t.Run("guests survive a restart of the hypervisor", func(t *testing.T) { restart(t, host) })
	t.Run("a definition that fails half-way leaves nothing", func(t *testing.T) { refuse(t, host) })
}

// call is a call of a driver.
type call func(ctx context.Context, h hypervisor.Hypervisor) error

// interrupted is a call that changes a guest; nil: there is none before or after it.
type interrupted struct {
	before *hypervisor.Guest
	change call
	after  *hypervisor.Guest
}

// atEachPoint interrupts the call at each point of its work in turn, until it is not interrupted any more.
func (i interrupted) atEachPoint(t *testing.T, host Faulty) {
	for point := 0; ; point++ {
		h := host.Open(t)
		if i.before != nil {
			must(t, h.Build(t.Context(), *i.before))
		}
		cut, reached := host.Cut(t, point)
		err := i.change(t.Context(), cut)
		if !reached() {
			must(t, err)
			if point < 2 {
				t.Fatalf("the driver has no effect: only %d points were reached", point)
			}
		}
		i.wantOneOf(t, host.Open(t), point)
		again := host.Open(t)
		if starter, is := again.(hypervisor.Starter); is {
			must(t, starter.Start(t.Context()))
		}
		must(t, i.change(t.Context(), again))
		has(t, again, guests(i.after)...)
		for _, g := range append(guests(i.before), guests(i.after)...) {
			must(t, again.Destroy(t.Context(), g.ID))
		}
		if left := host.Left(t); len(left) != 0 {
			t.Errorf("point %d: left are %q", point, left)
		}
		if t.Failed() || !reached() {
			t.Logf("ended at point %d", point)
			return
		}
	}
}

// wantOneOf checks that the guest is listed with its devices as it was or as it must become. A guest whose call was
// interrupted may be stopped, and have either number of rebuilds.
func (i interrupted) wantOneOf(t *testing.T, h hypervisor.Hypervisor, point int) {
	t.Helper()
	got, err := h.Guests(t.Context())
	must(t, err)
	for n := range got {
		got[n] = identity(got[n])
	}
	for _, one := range []*hypervisor.Guest{i.before, i.after} {
		want := guests(one)
		for n := range want {
			want[n] = identity(want[n])
		}
		if len(got) == 0 && len(want) == 0 || reflect.DeepEqual(got, want) {
			return
		}
	}
	t.Errorf("point %d: guests %+v", point, got)
}

// identity returns a guest without what a call may have changed when it is interrupted.
func identity(g hypervisor.Guest) hypervisor.Guest {
	if g.Server == "" {
		g.Server = g.ID
	}
	g.Stopped, g.ShutDown, g.Build = false, false, 0
	return g
}

func guests(g *hypervisor.Guest) []hypervisor.Guest {
	if g == nil {
		return nil
	}
	return []hypervisor.Guest{*g}
}

// restart restarts the hypervisor while guests run, with a driver that was opened before.
func restart(t *testing.T, host Faulty) {
	h := host.Open(t)
	a, b, c := Guest("a", 1), Guest("b", 2), Guest("c", 3)
	b.Stopped = true
	must(t, h.Build(t.Context(), a))
	must(t, h.Build(t.Context(), b))
	host.Restart(t)
	for _, driver := range []hypervisor.Hypervisor{h, host.Open(t)} {
		has(t, driver, a, b)
		must(t, driver.Build(t.Context(), a))
		has(t, driver, a, b)
	}
	b.Stopped = false
	must(t, h.Build(t.Context(), b))
	must(t, h.Destroy(t.Context(), a.ID))
	must(t, h.Build(t.Context(), c))
	has(t, h, b, c)
}

// refuse builds guests while the host fails to define them.
func refuse(t *testing.T, host Faulty) {
	h := host.Open(t)
	old, fresh := Guest("a", 1), Guest("b", 2)
	must(t, h.Build(t.Context(), old))
	before := host.Left(t)
	accept := host.Refuse(t)
	if err := h.Build(t.Context(), fresh); err == nil {
		t.Error("the host has refused the definition, and the guest is built")
	}
	has(t, h, old)
	if left := host.Left(t); !reflect.DeepEqual(left, before) {
		t.Errorf("left are %q, before there were %q", left, before)
	}
	larger := old
	larger.MemoryMB *= 2
	if err := h.Build(t.Context(), larger); err == nil {
		t.Error("the host has refused the definition, and the guest is changed")
	}
	has(t, host.Open(t), old)
	accept()
	must(t, h.Build(t.Context(), larger))
	must(t, h.Build(t.Context(), fresh))
	has(t, host.Open(t), larger, fresh)
	for _, g := range []hypervisor.Guest{larger, fresh} {
		must(t, h.Destroy(t.Context(), g.ID))
	}
	if left := host.Left(t); len(left) != 0 {
		t.Errorf("left are %q", left)
	}
}

package cloud

import (
	"os/exec"
	"testing"

	"github.com/openberth/berth/compute/store"
)

// A process is known to run, or known to have ended, only where it can be seen, and not by its number alone.
func TestWhetherAProcessRuns(t *testing.T) {
	me := thisProcess()
	if me.Place == "" || me.Birth == "" || me.Host == "" || me.Instance == thisProcess().Instance {
		t.Fatalf("%+v", me)
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	child := store.Holder{PID: sleeper.Process.Pid, Place: me.Place, Birth: processBirth(sleeper.Process.Pid)}
	expect := func(what string, h store.Holder, running, over bool) {
		t.Helper()
		if runs(h) != running || ended(h) != over {
			t.Errorf("%s: runs %v, ended %v: %+v", what, runs(h), ended(h), h)
		}
	}
	changed := func(h store.Holder, change func(*store.Holder)) store.Holder {
		change(&h)
		return h
	}
	expect("this one", me, true, false)
	expect("a child", child, true, false)
	expect("of another machine", changed(child, func(h *store.Holder) { h.Place = "elsewhere" }), false, false)
	expect("of nobody knows where", changed(child, func(h *store.Holder) { h.Place = "" }), false, false)
	expect("an earlier one of this number", changed(child, func(h *store.Holder) { h.Birth = "1" }), false, true)
	expect("of unknown birth", changed(child, func(h *store.Holder) { h.Birth = "" }), false, false)
	if err := sleeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleeper.Wait() // it says that it was killed
	expect("a dead child", child, false, true)
}

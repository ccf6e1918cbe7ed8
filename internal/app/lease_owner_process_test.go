package app

import (
	"os/exec"
	"testing"

	"github.com/openberth/berth/compute/store/lease"
)

// isRunning and hasEnded are certain only for processes that are visible here, and do not rely on the process id alone.
func TestProcessState(t *testing.T) {
	t.Parallel()
	me := thisProcess()
	if me.BootID == "" || me.StartTime == "" || me.Host == "" || me.Instance == thisProcess().Instance {
		t.Fatalf("%+v", me)
	}
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	child := lease.Owner{PID: sleeper.Process.Pid, BootID: me.BootID,
		StartTime: processStartTime(sleeper.Process.Pid)}
	expect := func(what string, h lease.Owner, running, over bool) {
		t.Helper()
		if isRunning(h) != running || hasEnded(h) != over {
			t.Errorf("%s: runs %v, ended %v: %+v", what, isRunning(h), hasEnded(h), h)
		}
	}
	changed := func(h lease.Owner, change func(*lease.Owner)) lease.Owner {
		change(&h)
		return h
	}
	expect("this one", me, true, false)
	expect("a child", child, true, false)
	expect("of another machine", changed(child, func(h *lease.Owner) { h.BootID = "elsewhere" }), false, false)
	expect("of an unknown machine", changed(child, func(h *lease.Owner) { h.BootID = "" }), false, false)
	expect("an earlier process with this id", changed(child, func(h *lease.Owner) { h.StartTime = "1" }), false, true)
	expect("with an unknown start time", changed(child, func(h *lease.Owner) { h.StartTime = "" }), false, false)
	if err := sleeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleeper.Wait() // the error is that it was killed
	expect("a dead child", child, false, true)
}

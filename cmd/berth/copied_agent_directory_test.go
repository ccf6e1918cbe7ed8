package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
)

// A copy of an agent's directory does not become a second agent of the host.
func TestCopiedAgentDirectory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, aliases+pciInPlacement)
	machine := bus81(t)
	file := f.host("cmp1", machine, deviceSpecs+reportInPlacement)
	f.startAgent("cmp1", file)
	copyDir(t, f.path("cmp1"), f.path("copy"))
	// With the same lock directory the lock refuses it. With another one, such as in the copy of a virtual machine,
	// compute refuses it until the original has been silent for a minute, and again when it was not.
	if err := os.Mkdir(f.path("elsewhere"), 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := f.file("elsewhere", strings.ReplaceAll(strings.TrimPrefix(read(t, file),
		"[api]\nauth_strategy = noauth2\n"), f.path("locks"), f.path("elsewhere")))
	for file, text := range map[string]string{file: "agent-cmp1.lock locked",
		elsewhere: "the agent's directory or its machine was copied, last seen"} {
		_, stderr, status := output(t, f.args("agent", "--config-file", file, "--data-dir", f.path("copy"))...)
		if status != 1 || !strings.Contains(stderr, text) {
			t.Errorf("%d %s", status, stderr)
		}
	}
	var all sync.WaitGroup
	flavor := f.flavor("a-vf:1")
	for i := range 8 {
		all.Go(func() {
			if _, err := f.compute.compute().CreateServer(t.Context(), compute.CreateServer{Name: fmt.Sprint("s", i),
				Flavor: flavor}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	active := 0
	for _, s := range f.waitUntilSettled() {
		if s.Status == "ACTIVE" {
			active++
		}
	}
	if got := len(f.guests("cmp1")); got != active || active == 0 {
		t.Errorf("%d servers, %d guests", active, got)
	}
	if got := guestsIn(t, f.path("copy")); len(got) > 0 {
		t.Errorf("the copy has built %v", got)
	}
	// The original agent can start again immediately, also after kill -9.
	f.killAndRestart("cmp1")
}

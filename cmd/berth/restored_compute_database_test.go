package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// guests returns the contents of the files of a host's guests, by id.
func (f *fleet) guests(host string) map[string]string {
	f.t.Helper()
	return guestsIn(f.t, f.path(host))
}

func guestsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "agent", "guests", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range files {
		out[strings.TrimSuffix(filepath.Base(file), ".json")] = read(t, file)
	}
	return out
}

// waitForCondition waits for a condition of a host that contains text.
func (f *fleet) waitForCondition(host, text string) {
	f.t.Helper()
	eventually(f.t, host+" has the condition: "+text, func() (bool, error) {
		got := f.conditions(host)
		return strings.Contains(got, text), fmt.Errorf("conditions %q", got)
	})
}

// restartCompute runs change while compute is stopped.
func (f *fleet) restartCompute(change func()) {
	f.t.Helper()
	placement, listen := f.placement.urls["placement"], strings.TrimPrefix(f.compute.urls["compute"], "http://")
	f.compute.stop(f.t)
	change()
	f.compute = start(f.t, []string{"compute"}, "compute", "--config-file", f.path("compute.conf"), "--data-dir",
		f.path("compute"), "--listen", listen,
		"--placement-url", placement)
	f.compute.urls["placement"] = placement
}

// copyDir replaces the directory to by a copy of from.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// twoHosts returns a fleet of two hosts that report to Placement, and their configurations.
func twoHosts(t *testing.T) (f *fleet, files map[string]string) {
	t.Helper()
	f, files = newFleet(t, aliases+pciInPlacement), map[string]string{}
	machine := bus81(t)
	for _, host := range []string{"cmp1", "cmp2"} {
		files[host] = f.host(host, machine, deviceSpecs+reportInPlacement)
		f.startAgent(host, files[host])
	}
	return f, files
}

func other(host string) string {
	return map[string]string{"cmp1": "cmp2", "cmp2": "cmp1"}[host]
}

// Restoring an older database of compute destroys no guest and removes no allocation. berth agent adopt shows its
// effect before it changes anything.
func TestRestoreOfComputesDatabase(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f, files := twoHosts(t)
	kept, moved := f.server("kept", "a-vf:1"), f.server("moved", "a-vf:1")
	deleted := f.server("deleted", "a-pci-dev:1")
	backup := f.path("backup")
	f.restartCompute(func() { copyDir(t, f.path("compute"), backup) })
	from, to := *moved.Host, other(*moved.Host)
	moved = f.wantActiveOn(to, f.act(f.act(moved, "VERIFY_RESIZE", "migrate", nil), "ACTIVE", "confirmResize", nil))
	created := f.server("young", "a-vf:1")
	f.delete(deleted)
	f.waitUntilReleased(deleted)
	evacuated := f.server("evacuated", "a-pci-dev:1")
	before := map[string]map[string]string{"cmp1": f.guests("cmp1"), "cmp2": f.guests("cmp2")}
	held := map[string]string{moved.ID: f.allocation(moved), created.ID: f.allocation(created),
		evacuated.ID: f.allocation(evacuated),
		kept.ID:      f.allocation(kept)}
	unchanged := func(when string) {
		t.Helper()
		for host, was := range before {
			if now := f.guests(host); fmt.Sprint(now) != fmt.Sprint(was) {
				t.Errorf("%s: the guests of %s were %v, now %v", when, host, was, now)
			}
		}
		for id, was := range held {
			if now := f.allocation(compute.Server{ID: id}); now != was {
				t.Errorf("%s: the allocation of %s was %q, now %q", when, id, was, now)
			}
		}
	}

	f.restartCompute(func() { copyDir(t, backup, f.path("compute")) })
	for _, host := range []string{"cmp1", "cmp2"} {
		f.waitForCondition(host, "compute's database lacks assignments that this host has followed")
	}
	if s := f.server("refused", "a-vf:1"); s.Status != "ERROR" || !strings.Contains(s.Fault.Message,
		"does not follow compute's assignments") {
		t.Errorf("a new server is %s: %+v", s.Status, s.Fault)
	}
	// The restored database has the deleted server, and the moved one on its old host. A user deletes the latter, which
	// has no effect yet.
	if err := f.compute.compute().DeleteServer(t.Context(), moved.ID); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"cmp1", "cmp2"} { // also not after a restart of the agents
		f.startAgent(host, files[host])
		f.waitForCondition(host, "compute's database lacks assignments that this host has followed")
	}
	unchanged("restored")

	f.adopt(to, files[to], map[string]string{moved.ID: "stays as it is, and a condition names it"})
	f.adopt(from, files[from], map[string]string{})
	f.waitForCondition(to, "berth agent destroy "+moved.ID)
	unchanged("adopted")

	// The operator destroys the guest that compute has on another host.
	f.agents[to].stop(t)
	delete(f.agents, to)
	if _, stderr, status := output(t, f.args("agent", "destroy", moved.ID, "--config-file", files[to], "--data-dir",
		f.path(to))...); status != 0 {
		t.Fatal(stderr)
	}
	f.startAgent(to, files[to])
	eventually(t, "its deletion continues", func() (bool, error) { return f.allocation(moved) == "", nil })
	if _, exists := f.guests(to)[moved.ID]; exists {
		t.Error("the guest still exists")
	}
	// The hosts accept servers again when the deletion and the failure of the old servers are complete, and compute has
	// compared the hosts with Placement after that.
	eventually(t, "the moved server is deleted, and the deleted one is in ERROR", func() (bool, error) {
		_, gone := f.compute.compute().Server(t.Context(), moved.ID)
		s, err := f.compute.compute().Server(t.Context(), deleted.ID)
		return fault.Is(gone, fault.NotFound) && s.Status == "ERROR", errors.Join(gone, err)
	})
	for _, host := range []string{"cmp1", "cmp2"} {
		eventually(t, host+" has all allocations of its servers", func() (bool, error) {
			text := f.conditions(host)
			return !strings.Contains(text, "Placement lacks allocations"), errors.New(text)
		})
	}
	if s := f.server("later", "a-vf:1"); s.Status != "ACTIVE" {
		t.Errorf("a new server is %s: %+v", s.Status, s.Fault)
	}
}

// waitUntilReleased waits until a deleted server has no device in Placement.
func (f *fleet) waitUntilReleased(s compute.Server) {
	f.t.Helper()
	eventually(f.t, s.Name+" has no allocation", func() (bool, error) { return f.allocation(s) == "", nil })
}

// adopt stops the agent of a host, runs berth agent adopt and starts the agent again. shows has the effects, by guest,
// that must be shown before.
func (f *fleet) adopt(host, file string, shows map[string]string) {
	t := f.t
	t.Helper()
	f.agents[host].stop(t)
	delete(f.agents, host)
	args := f.args("agent", "adopt", "--config-file", file, "--data-dir", f.path(host))
	shown, stderr, status := output(t, args...)
	if status != 0 || !strings.Contains(shown, "nothing was changed") {
		t.Fatalf("%d %s %s", status, shown, stderr)
	}
	for id, then := range shows {
		if !slices.ContainsFunc(strings.Split(shown, "\n"), func(line string) bool {
			return strings.Contains(line, id) &&
				strings.HasSuffix(line, then)
		}) {
			t.Errorf("adopt on %s: the effect on %s is not %q:\n%s", host, id, then, shown)
		}
	}
	if shown, stderr, status = output(t, append(args, "--yes")...); status != 0 || !strings.Contains(shown, "adopted") {
		t.Fatalf("%d %s %s", status, shown, stderr)
	}
	f.startAgent(host, file)
}

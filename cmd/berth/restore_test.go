package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/testenv"
)

// guests are the files of a host's guests with what is in them, by id.
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

// saying waits for a condition of a host.
func (f *fleet) saying(host, text string) {
	f.t.Helper()
	eventually(f.t, host+" says: "+text, func() (bool, error) {
		got := f.conditions(host)
		return strings.Contains(got, text), fmt.Errorf("it says %q", got)
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

// copyDir copies a directory, with what was there before gone.
func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// twoHosts are a fleet of two hosts whose VFs are in Placement, and their configurations.
func twoHosts(t *testing.T) (f *fleet, files map[string]string) {
	t.Helper()
	f, files = newFleet(t, aliases+asking), map[string]string{}
	machine := bus81(t)
	for _, host := range []string{"cmp1", "cmp2"} {
		files[host] = f.host(host, machine, spec+reporting)
		f.startAgent(host, files[host])
	}
	return f, files
}

func other(host string) string {
	return map[string]string{"cmp1": "cmp2", "cmp2": "cmp1"}[host]
}

// Row 1: restoring an older database of compute destroys no guest and gives nothing away, and the way on is shown
// before it is gone.
func TestRestoreOfComputesDatabase(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f, files := twoHosts(t)
	kept, moved := f.server("kept", "a-vf:1"), f.server("moved", "a-vf:1")
	deleted := f.server("deleted", "a-pci-dev:1")
	backup := f.path("backup")
	f.restartCompute(func() { copyDir(t, f.path("compute"), backup) })
	from, to := *moved.Host, other(*moved.Host)
	moved = f.on(to, f.act(f.act(moved, "VERIFY_RESIZE", "migrate", nil), "ACTIVE", "confirmResize", nil))
	young := f.server("young", "a-vf:1")
	f.delete(deleted)
	f.idleOf(deleted)
	evacuated := f.server("evacuated", "a-pci-dev:1")
	before := map[string]map[string]string{"cmp1": f.guests("cmp1"), "cmp2": f.guests("cmp2")}
	held := map[string]string{moved.ID: f.held(moved), young.ID: f.held(young), evacuated.ID: f.held(evacuated),
		kept.ID: f.held(kept)}
	unharmed := func(when string) {
		t.Helper()
		for host, was := range before {
			if now := f.guests(host); fmt.Sprint(now) != fmt.Sprint(was) {
				t.Errorf("%s: the guests of %s were %v and are %v", when, host, was, now)
			}
		}
		for id, was := range held {
			if now := f.held(compute.Server{ID: id}); now != was {
				t.Errorf("%s: %s held %q and holds %q", when, id, was, now)
			}
		}
	}

	f.restartCompute(func() { copyDir(t, backup, f.path("compute")) })
	for _, host := range []string{"cmp1", "cmp2"} {
		f.saying(host, "compute's database lacks assignments that this host has followed")
	}
	if s := f.server("refused", "a-vf:1"); s.Status != "ERROR" || !strings.Contains(s.Fault.Message,
		"does not follow compute's assignments") {
		t.Errorf("a new server is %s: %+v", s.Status, s.Fault)
	}
	// The restored record has the deleted one, and the moved one where it was. A user deletes the latter: nothing comes
	// of it yet.
	if err := f.compute.compute().DeleteServer(t.Context(), moved.ID); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"cmp1", "cmp2"} { // nor after a restart of the agents
		f.startAgent(host, files[host])
		f.saying(host, "compute's database lacks assignments that this host has followed")
	}
	unharmed("restored")

	f.adopt(to, files[to], map[string]string{moved.ID: "stays as it is, and a condition names it"})
	f.adopt(from, files[from], map[string]string{})
	f.saying(to, "berth agent destroy "+moved.ID)
	unharmed("adopted")

	// The operator sees to what the record does not know.
	f.agents[to].stop(t)
	delete(f.agents, to)
	if _, stderr, status := output(t, f.args("agent", "destroy", moved.ID, "--config-file", files[to], "--data-dir",
		f.path(to))...); status != 0 {
		t.Fatal(stderr)
	}
	f.startAgent(to, files[to])
	eventually(t, "its deletion goes on", func() (bool, error) { return f.held(moved) == "", nil })
	if _, there := f.guests(to)[moved.ID]; there {
		t.Error("the guest is still there")
	}
	s := f.server("later", "a-vf:1") // and the hosts serve again
	f.on(*s.Host, s)
}

// idleOf waits until a deleted server holds nothing.
func (f *fleet) idleOf(s compute.Server) {
	f.t.Helper()
	eventually(f.t, s.Name+" holds nothing", func() (bool, error) { return f.held(s) == "", nil })
}

// adopt stops the agent of a host and lets it follow what compute has now. shows are what is to be shown of some guests
// beforehand.
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
			t.Errorf("adopting on %s shows of %s not %q:\n%s", host, id, then, shown)
		}
	}
	if shown, stderr, status = output(t, append(args, "--yes")...); status != 0 || !strings.Contains(shown, "adopted") {
		t.Fatalf("%d %s %s", status, shown, stderr)
	}
	f.startAgent(host, file)
}

// Row 2: a copy of an agent's directory does not become a second agent of the host.
func TestCopiedAgentDirectory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, aliases+asking)
	machine := bus81(t)
	file := f.host("cmp1", machine, spec+reporting)
	f.startAgent("cmp1", file)
	copyDir(t, f.path("cmp1"), f.path("copy"))
	// Where it sees the same locks it is refused by them; elsewhere, such as in the copy of a virtual machine, compute
	// refuses it.
	if err := os.Mkdir(f.path("elsewhere"), 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := f.file("elsewhere", strings.ReplaceAll(strings.TrimPrefix(read(t, file),
		"[api]\nauth_strategy = noauth2\n"), f.path("locks"), f.path("elsewhere")))
	for file, says := range map[string]string{file: "agent-cmp1.lock locked",
		elsewhere: "the agent's directory or its machine was copied, connected now"} {
		_, stderr, status := output(t, f.args("agent", "--config-file", file, "--data-dir", f.path("copy"))...)
		if status != 1 || !strings.Contains(stderr, says) {
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
	for _, s := range f.settled() {
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
	// The agent itself starts again at once, also after kill -9.
	f.crash("cmp1")
}

// Row 17: a host that was forgotten while its guest ran does not take the evacuated server's allocation back.
func TestAgentOfAForgottenHost(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f, files := twoHosts(t)
	s := f.server("s", "a-vf:1")
	old, fresh := *s.Host, other(*s.Host)
	f.agents[old].kill()
	delete(f.agents, old)
	if _, stderr, status := output(t, "--compute-url", f.compute.urls["compute"], "host", "down", old,
		"--force"); status != 0 {
		t.Fatal(stderr)
	}
	s = f.on(fresh, f.act(s, "ACTIVE", "evacuate", map[string]any{}))
	held := f.held(s)
	eventually(t, old+" is forgotten", func() (bool, error) {
		_, stderr, status := output(t, "--compute-url", f.compute.urls["compute"], "host", "forget", old)
		return status == 0, fmt.Errorf("%s", stderr)
	})
	f.startAgent(old, files[old])
	f.saying(old, "berth agent destroy "+s.ID)
	if now := f.held(s); now != held || !strings.HasPrefix(held, fresh) {
		t.Errorf("it held %q and holds %q", held, now)
	}
	if _, there := f.guests(old)[s.ID]; !there {
		t.Error("its guest on the host that was forgotten is gone, and nobody said so")
	}
	p := f.placement.placement()
	root, err := p.ProviderByName(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := p.Tree(t.Context(), root.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range tree.Providers {
		if who, err := p.ProviderAllocations(t.Context(), one.ID); err != nil || len(who) > 0 {
			t.Errorf("%s is held by %v (%v)", one.Name, who, err)
		}
	}
}

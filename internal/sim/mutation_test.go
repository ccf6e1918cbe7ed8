package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// mutation is a change of the source of a production package, which a check of the simulation must notice.
type mutation struct {
	file     string // from the root of the module
	old, new string // old must occur once
	noticed  string // how the failure begins
	seed     int    // of the first cloud, because few seeds meet some of them
}

// mutations break decisions of production code that the simulation cannot break from outside.
var mutations = map[string]mutation{
	"guests on other hosts do not stop a step": {"compute/conductor/checks_after_database_restore.go",
		"	for _, at := range conflicts {\n		switch {", "	for _, at := range conflicts[:0] {\n		switch {", "freed", 1},
	"a host with a live agent is silent": {"compute/conductor/agent_liveness.go",
		"	return c.agentLiveness(host.Name), nil", "	_ = host\n	return \"\", nil", "running twice", 1},
	"a guest is built beside another one": {"compute/conductor/checks_after_database_restore.go",
		"		return d.checkMayBuild(ctx, s, claim)", "		_ = claim\n		return nil", "running twice", 1},
	"stored reports are forgotten": {"compute/conductor/first_reports.go",
		"	c.presence.recall(hosts)\n", "", "freed", 6},
	"an effect does not wait for the journal": {"agent/reconcile/shared_core.go",
		"	if !c.hold(e) {", "	if true {", "journal", 1},
	"claims are freed before the guest is destroyed": {"agent/reconcile/remove_guest.go",
		"	if !j.attempt.destroyed[id] {", "	w.free(id)\n	if !j.attempt.destroyed[id] {",
		"journal", 1},
	"assignments of an older database are followed": {"agent/reconcile/accept_assignments.go",
		"		if refusal = s.position().Accept(a); refusal != \"\" {", "		if false {", "follow", 1},
	"unconfirmed allocations are written": {"agent/reconcile/missing_allocations_to_write.go",
		"		case !is || !reflect.DeepEqual(known, want):\n			return treeplan.Pending",
		"		case !is || !reflect.DeepEqual(known, want):\n			return treeplan.Assigned", "shared", 1},
	"a failed cleaning counts": {"agent/reconcile/clean_devices_on_request.go",
		"	if err != nil {\n		c.failures[at]++", "	if false {\n		c.failures[at]++", "reserved", 1},
}

// run runs TestSmallClouds with the mutation and returns its output.
func (m mutation) run(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, m.file)
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s has the text %d times: %s", m.file, n, m.old)
	}
	dir := t.TempDir()
	mutated, overlay := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": {file: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{overlay: string(text),
		mutated: strings.Replace(string(source), m.old, m.new, 1)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-vet=off", "-count=1",
		"-run", "^TestSmallClouds$", "./internal/sim")
	cmd.Dir, cmd.Env = root, append(os.Environ(), fmt.Sprint(firstCloud, "=", m.seed))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "nothing has failed"
	}
	return string(out)
}

// firstCloud is the environment variable with the first seed of TestSmallClouds.
const firstCloud = "BERTH_SIM_FIRST_CLOUD"

// TestSmallClouds runs clouds that are small enough for many operations on each host. The mutated production code of
// TestMutatedProductionIsNoticed must fail in it.
func TestSmallClouds(t *testing.T) {
	testenv.Long(t)
	first := number(t, firstCloud, 1)
	for seed := first; seed < first+12; seed++ {
		r := Run(Options{Seed: uint64(seed), Ops: 20000, Hosts: 24, Quiet: 4000, Without: []string{"steal"}})
		if r.Failure != "" {
			t.Fatal(r.Failure)
		}
	}
}

// Production code that is broken on purpose is noticed, by the check that is there for it.
func TestMutatedProductionIsNoticed(t *testing.T) {
	testenv.Long(t)
	for name, m := range mutations {
		t.Run(name, func(t *testing.T) {
			if out := m.run(t); !strings.Contains(out, fmt.Sprintf(": %s: ", m.noticed)) {
				t.Errorf("want %q, got %s", m.noticed, out)
			}
		})
	}
}

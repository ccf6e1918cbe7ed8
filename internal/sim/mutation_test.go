package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// mutation is a change of the source of a production package, which a check of the simulation must notice.
type mutation struct {
	file     string // from the root of the module
	old, new string // old must occur once; new does the same unless the condition mutated holds
	noticed  string // checks that the consequences violate, separated by commas; one of them must fail
	often    string // kind of operation that is done more often, so that few clouds are needed; empty: none
	in       string // the kind of small clouds; see runSmallCloud
}

// mutations break decisions of production code that the simulation cannot break from outside.
var mutations = map[string]mutation{
	"a guest that a list lacks is built as a new one": {"agent/reconcile/guests/built_guests.go",
		"	return built && !there && want.Build <= build",
		"	if mutated {\n		return built && there && want.Build < build\n	}\n" +
			"	return built && !there && want.Build <= build", "blank", "", plain},
	"a guest that is built too late stays": {"agent/reconcile/state/shared_core.go",
		"	return there && !g.Departed && (c.State.Ended(id)", "	return there && g.Departed == mutated && (c.State.Ended(id)",
		"late,left", "late", plain},
	"guests on other hosts do not stop a step": {"compute/conductor/restore_checks.go",
		"	for _, at := range conflicts {\n		switch {",
		"	if mutated {\n		conflicts = nil\n	}\n	for _, at := range conflicts {\n		switch {", "freed", Restore, plain},
	"a host with a live agent is silent": {"compute/presence/liveness.go",
		"	if failed := a.StartFailure(host.Name).Why; failed != \"\" {",
		"	if mutated {\n		return \"\", nil\n	}\n	if failed := a.StartFailure(host.Name).Why; failed != \"\" {",
		"running twice", "", plain},
	"a guest is built beside another one": {"compute/conductor/restore_checks.go",
		"		return d.checkMayBuild(ctx, s, claim)",
		"		if mutated {\n			return nil\n		}\n		return d.checkMayBuild(ctx, s, claim)", "running twice", Restore, plain},
	"a server leaves a silent host that may have its guest": {"compute/lifecycle/unresponsive_host.go",
		"	if s.Reported || s.AllocatedHost() != host {", "	if s.Reported && !mutated || s.AllocatedHost() != host {",
		"running twice,freed", "unfollowed", plain},
	"an effect does not wait for the journal": {"agent/reconcile/state/shared_core.go",
		"	if !c.hold(e) {", "	if mutated || !c.hold(e) {", "journal", "", plain},
	"claims are freed before the guest is destroyed": {"agent/reconcile/guests/remove_guest.go",
		"	if !j.attempt.destroyed[id] {", "	if mutated {\n		w.Free(id)\n	}\n	if !j.attempt.destroyed[id] {",
		"journal", "", plain},
	"assignments of an older database are followed": {"agent/reconcile/accept_assignments.go",
		"		if refusal = s.position().Accept(a); refusal != \"\" {",
		"		if mutated {\n		} else if refusal = s.position().Accept(a); refusal != \"\" {", "follow", "", plain},
	"a failed cleaning counts": {"agent/reconcile/clean_devices_on_request.go",
		"	if err != nil {\n		c.failures[at]++", "	if err != nil && !mutated {\n		c.failures[at]++", "reserved", "clean",
		plain},
	"the bandwidth of a port may be of another NIC than its VF": {"compute/portrequest/port_requests.go",
		"		if len(subtree) > 1 {", "		if len(subtree) > 1 && !mutated {", "nic", "", directPorts},
	"the VF of a detached port is not freed": {"agent/reconcile/guests/change_port_devices.go",
		"	if len(left) > 0 {", "	if len(left) > 0 && !mutated {", "port", "", directPorts},
	"the VF of a detached port stays allocated": {"compute/ports/amounts.go",
		"	if want.Devices {", "	if want.Devices && !mutated {", "allocation", "", directPorts},
	"a server that moves gets a blank disk": {"compute/lifecycle/host_assignment.go",
		"		if m := s.Move; m != nil && m.keepsDisk() {", "		if m := s.Move; m != nil && m.keepsDisk() && !mutated {",
		"blank", "", plain},
	"a shelved server is removed before its disk is uploaded": {"compute/lifecycle/shelve.go",
		"	if e.DiskFormat == \"\" {", "	if e.DiskFormat == \"\" || mutated {", "shelve", "", plain},
	"an unshelved server gets a blank disk": {"compute/lifecycle/host_assignment.go",
		"		if s.Shelved && s.ShelvedImage != nil {", "		if s.Shelved && s.ShelvedImage != nil && !mutated {", "blank", "",
		plain},
	"the image is deleted before the unshelved guest runs": {"compute/lifecycle/apply_server_action.go",
		"	s.State, s.Round, s.FailedHosts = Scheduling, 0, nil",
		"	if mutated {\n		s = dropShelvedImage(s)\n	}\n" +
			"	s.State, s.Round, s.FailedHosts = Scheduling, 0, nil", "blank", "", plain},
	"a restored record deletes a user's copy": {"compute/conductor/shelved_images.go",
		"	if err == nil && found.Properties[image.ShelvedServer] != s.ID {",
		"	if err == nil && found.Properties[image.ShelvedServer] != s.ID && !mutated {", "image", Restore, plain},
	"a disabled device is given to a server": {"agent/device/claim_devices.go",
		" && s.whyDisabled(id) == \"\" {", " && (mutated || s.whyDisabled(id) == \"\") {", "disabled", "disable", plain},
	"a disabled device is forgotten when the agent starts again": {"agent/reconcile/sync/restore_claims.go",
		"	s.ApplyDisabled()\n", "	if !mutated {\n		s.ApplyDisabled()\n	}\n", "disabled", "disable", plain},
	"a guest is started with a card that has VFs": {"agent/reconcile/guests/whole_cards.go",
		"	if a.ready.cards {", "	if a.ready.cards || mutated {", "card", "", plain},
	"the number of VFs is not recorded": {"agent/reconcile/state/vfs_of_cards.go",
		"known[id] == 0 && n > 0 {", "known[id] == 0 && n > 0 && !mutated {", "card", "", plain},
	"VFs are restored while the card is held": {"agent/reconcile/restore_vfs.go",
		"!state.CardHeld(r.Core, id) {", "(mutated || !state.CardHeld(r.Core, id)) {", "card", "", plain},
	"the scheduler leaves out a node": {"compute/schedule/numa_topology_filter.go",
		"	cells := h.Cells\n",
		"	cells := h.Cells\n	if mutated && len(cells) > 0 {\n		cells = cells[1:]\n	}\n",
		"refused,headroom", "", variedHosts},
	"the devices of a set need not agree": {"plan/slots.go",
		"			values, larger := m.values(d)\n",
		"			values, larger := m.values(d)\n" +
			"			if mutated {\n				values = []string{\"any\"}\n			}\n",
		"placed,headroom", "", variedHosts},
	"a card is used up by one of its VFs": {"compute/schedule/pci_device_filter.go",
		"			return g.Address == d.Address ||",
		"			return mutated && g.Parent != nil && d.Parent != nil && *g.Parent == *d.Parent ||\n" +
			"				g.Address == d.Address ||",
		"refused,headroom", "", variedHosts},
	"a plan is remembered although a device was freed": {"compute/schedule/plan_answers.go",
		"	b.WriteString(h.machine)\n",
		"	b.WriteString(h.machine)\n	if mutated {\n		return b.String()\n	}\n",
		"refused,headroom", "", variedHosts},
	"a VF is freed before it is reset": {"agent/reconcile/guests/configure_vfs.go",
		"	if !w.Config.ConfigureVFs || j.attempt.vfsReset[id] || len(devices) == 0 {",
		"	if mutated || !w.Config.ConfigureVFs || j.attempt.vfsReset[id] || len(devices) == 0 {", "vf", "", directPorts},
}

// source returns the path and the text of the file that a mutation changes.
func (m mutation) source(t *testing.T) (path, text string) {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", m.file))
	if err != nil {
		t.Fatal(err)
	}
	read, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(read)
}

// Each mutation finds its text. TestMutatedProductionIsNoticed takes long, so that a moved text would be noticed late.
func TestMutationsFindTheirTexts(t *testing.T) {
	for name, m := range mutations {
		if _, source := m.source(t); strings.Count(source, m.old) != 1 {
			t.Errorf("%s: %s has the text %d times: %s", name, m.file, strings.Count(source, m.old), m.old)
		}
	}
}

// buildMutated builds a program with the tests of this package in which the environment variable mutationName selects
// the mutation, and returns its path. One program for all mutations, because compiling takes longer than most runs.
func buildMutated(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	sources, replace := map[string]string{}, map[string]string{}
	for name, m := range mutations {
		file, text := m.source(t)
		if sources[file] == "" {
			sources[file] = text
		}
		if n := strings.Count(sources[file], m.old); n != 1 {
			t.Fatalf("%s has the text %d times: %s", m.file, n, m.old)
		}
		changed := strings.ReplaceAll(m.new, "mutated", fmt.Sprintf("(simulatedMutation == %q)", name))
		sources[file] = strings.Replace(sources[file], m.old, changed, 1)
		clause := regexp.MustCompile(`(?m)^package .*$`).FindString(text)
		sources[filepath.Join(filepath.Dir(file), "simulated_mutation.go")] = clause +
			"\n\nimport \"os\"\n\nvar simulatedMutation = os.Getenv(\"" + mutationName + "\")\n"
	}
	for file, text := range sources {
		copied := filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		write(t, copied, []byte(text))
		replace[file] = copied
	}
	overlay := filepath.Join(dir, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, text)
	program := filepath.Join(dir, "mutated.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-vet=off", "-o", program,
		".").CombinedOutput(); err != nil {
		t.Fatalf("building with the mutations: %v\n%s", err, out)
	}
	return program
}

// write writes a file of the test.
func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs TestSmallClouds of a program of buildMutated with the mutation, in at most this number of clouds, until one
// of its checks fails, and returns the output.
func (m mutation) run(t *testing.T, program, name string, clouds int) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.run", "^TestSmallClouds$")
	cmd.Env = append(os.Environ(), mutationName+"="+name, firstCloud+"=1", fmt.Sprint(manyClouds, "=", clouds),
		awaitedChecks+"="+m.noticed, oftenKind+"="+m.often, kindOfClouds+"="+m.in)
	out, _ := cmd.CombinedOutput() // its exit code is in the output
	return string(out)
}

// The environment variables of TestSmallClouds and of programs of buildMutated.
const (
	mutationName  = "BERTH_SIM_MUTATION"    // the mutation; empty: none
	firstCloud    = "BERTH_SIM_FIRST_CLOUD" // the first seed
	manyClouds    = "BERTH_SIM_CLOUDS"      // the number of clouds; few meet some mutations
	oftenKind     = "BERTH_SIM_OFTEN"       // the kind of operation that is done more often
	kindOfClouds  = "BERTH_SIM_KIND"        // the kind of small clouds, see runSmallCloud
	awaitedChecks = "BERTH_SIM_CHECKS"      // the checks whose failure ends the test, separated by commas; empty: all
)

// otherCheck precedes the failure of a check that is not awaited.
const otherCheck = "not an awaited check: "

// TestSmallClouds runs small clouds. The mutated production code of TestMutatedProductionIsNoticed must fail in it.
func TestSmallClouds(t *testing.T) {
	testenv.Long(t)
	first := number(t, firstCloud, 1)
	for seed := first; seed < first+number(t, manyClouds, 2); seed++ {
		r := smallCloud(seed, os.Getenv(oftenKind), os.Getenv(kindOfClouds))
		failure, _, _ := strings.Cut(r.Failure, "\n")
		checks := os.Getenv(awaitedChecks)
		switch {
		case failure == "":
		case checks == "" || isOf(failure, checks):
			t.Fatal(r.Failure)
		default:
			t.Log(otherCheck + failure)
		}
	}
}

// TestSmallCloudsWithPorts runs the first of these clouds with ports.
func TestSmallCloudsWithPorts(t *testing.T) {
	testenv.Long(t)
	if r := Run(Options{Seed: 1, Ops: 20000, Hosts: 24, Quiet: 4000, Without: []string{"steal"}}); r.Failure != "" {
		t.Error(r.Failure)
	}
}

// smallClouds are the reports of smallCloud, by its arguments. Several tests need the same ones.
var smallClouds sync.Map

// The kinds of small clouds.
const (
	plain       = ""       // no server has ports
	directPorts = "direct" // most servers have ports with VFs
	variedHosts = "varied" // hosts and flavors are varied, and no server has ports
)

// smallCloud runs a cloud of a kind that is small enough for many operations on each host, once for all tests.
func smallCloud(seed int, often, kind string) Report {
	run, _ := smallClouds.LoadOrStore(fmt.Sprint(seed, often, kind), sync.OnceValue(func() Report {
		return runSmallCloud(seed, often, kind)
	}))
	return run.(func() Report)()
}

// runSmallCloud runs the cloud of smallCloud.
func runSmallCloud(seed int, often, kind string) Report {
	o := Options{Seed: uint64(seed), Ops: 20000, Hosts: 24, Quiet: 4000, Often: often,
		Without: []string{"steal", Ports}}
	switch kind {
	case directPorts:
		o.Hosts, o.Direct, o.Without = 12, true, []string{"steal"}
	case variedHosts:
		o.Quiet, o.Varied = 1000, true
	}
	return Run(o)
}

// isOf reports whether a failure is of one of the checks, which are separated by commas.
func isOf(failure, checks string) bool {
	return slices.ContainsFunc(strings.Split(checks, ","), func(check string) bool {
		return strings.Contains(failure, ": "+check+": ")
	})
}

// Production code that is broken on purpose is noticed by a check that is there for it, in a cloud in which that check
// does not fail otherwise. The order of random numbers changes with production code, so any of many clouds may meet the
// mutation first, and other checks may fail before.
func TestMutatedProductionIsNoticed(t *testing.T) {
	testenv.Long(t)
	program := buildMutated(t)
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		if out := (mutation{}).run(t, program, "", 2); !strings.HasSuffix(out, "\nPASS\n") {
			t.Errorf("with the texts of the mutations, but without their effect, it fails: %s", out)
		}
	})
	for name, m := range mutations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := m.run(t, program, name, 60)
			for line := range strings.Lines(out) {
				switch _, text, is := strings.Cut(line, "seed "); {
				case is && strings.Contains(line, otherCheck):
					t.Log(strings.TrimSpace(line))
				case is && isOf(line, m.noticed):
					number, _, _ := strings.Cut(text, ",")
					seed, err := strconv.Atoi(number)
					if r := smallCloud(seed, m.often, m.in); err != nil || isOf(r.Failure, m.noticed) {
						t.Errorf("without the mutation it fails too: %v %s", err, r.Failure)
					}
					return
				}
			}
			t.Errorf("want a failure of one of %q, got %s", m.noticed, out)
		})
	}
}

// TestSmallCloudsOfDirectPorts runs small clouds whose servers mostly have ports with VFs.
func TestSmallCloudsOfDirectPorts(t *testing.T) {
	happened := map[string]int{}
	first := number(t, firstCloud, 1)
	for seed := first; seed < first+number(t, manyClouds, 2); seed++ {
		r := smallCloud(seed, "", directPorts)
		if r.Failure != "" {
			t.Error(r.Failure)
		}
		for _, all := range []map[string]int{r.Happened, r.Done} {
			for what, n := range all {
				happened[what] += n
			}
		}
	}
	for _, what := range []string{"VF of a port", "ConfigureVFs", "ResetVFs", "os-migrateLive"} {
		if happened[what] == 0 {
			t.Errorf("%q never happened", what)
		}
	}
}

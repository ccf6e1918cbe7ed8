package store

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/compute/lifecycle"
)

// constants returns the values of the constants of package lifecycle with one of these types, by name. They are parsed
// from the source, because a list in the code could lack a new one.
func constants(t *testing.T, types ...string) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../lifecycle/*.go")
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, isValue := n.(*ast.ValueSpec)
			if !isValue {
				return true
			}
			if id, named := spec.Type.(*ast.Ident); !named || !slices.Contains(types, id.Name) || len(spec.Values) != 1 {
				return true
			}
			if literal, is := spec.Values[0].(*ast.BasicLit); is {
				values[spec.Names[0].Name], _ = strconv.Unquote(literal.Value)
			}
			return true
		})
	}
	return values
}

// checkWords checks that each constant of these types has its own stored word, and that each word has a constant.
func checkWords[T ~string](t *testing.T, table words[T], types ...string) {
	t.Helper()
	found := constants(t, types...)
	if len(found) == 0 {
		t.Fatalf("package lifecycle has no constants of type %s", types)
	}
	if found["Moving"] != "" {
		delete(found, "Moving") // the phase of the move is stored instead
	}
	used := map[string]bool{}
	for name, value := range found {
		text, err := table.text(T(value))
		if err != nil || value != "" && len(text) == 0 {
			t.Errorf("lifecycle.%s has no stored word: %v", name, err)
			continue
		}
		if back, err := table.value(text); err != nil || back != T(value) {
			t.Errorf("lifecycle.%s is stored as %q, which is read as %q %v", name, text, back, err)
		}
		used[string(text)] = true
	}
	for _, one := range table {
		if !used[one.stored] {
			t.Errorf("the stored word %q of %s has no constant", one.stored, types)
		}
	}
}

func TestEveryConstantHasStoredWord(t *testing.T) {
	checkWords(t, stages, "State", "MovePhase")
	checkWords(t, tasks, "Task")
	checkWords(t, kinds, "Kind")
	checkWords(t, powers, "Power")
	var all []stage
	for _, state := range lifecycle.States() {
		if state != lifecycle.Moving {
			all = append(all, stage(state))
		}
	}
	for _, phase := range lifecycle.MovePhases() {
		all = append(all, stage(phase))
	}
	for _, one := range all {
		if text, err := stages.text(one); err != nil || string(text) != string(one) || len(text) > 32 { // the column's size
			t.Errorf("the stage %s is stored as %q %v: what is stored and what is shown must be one word", one, text, err)
		}
	}
}

// TestStoredWordsAreUnchanged checks the stored words, which are the same in every database. A change needs a new
// version.
func TestStoredWordsAreUnchanged(t *testing.T) {
	list := func(stored []string) string { return strings.Join(stored, " ") }
	for typ, got := range map[string]string{
		"State": list(storedWords(stages)), "Task": list(storedWords(tasks)), "Kind": list(storedWords(kinds)),
		"Power": list(storedWords(powers)),
	} {
		want := map[string]string{
			"State": "preparing scheduling planning moving_allocations awaiting_source_ack claiming awaiting_min_count " +
				"stopping_source pre_live_migration live_migrating spawning active resized rescheduling failing " +
				"error reverting releasing_destination restoring_allocations revert_blocked shelving offloading " +
				"shelved deleting_guest deleting_allocation deleted_awaiting_cleanup deleted binding_ports",
			"Task": "powering-off powering-on rebooting rebooting_hard reboot_started reboot_started_hard rebuilding " +
				"resize_reverting migrating shelving_image_pending_upload shelving_image_uploading",
			"Kind":  "resize migration live-migration evacuation",
			"Power": "off",
		}[typ]
		if got != want {
			t.Errorf("%s: %s\nbefore: %s", typ, got, want)
		}
	}
	// Each word of version 1 is read as its own state.
	const before = "scheduling planning rekeying handing claiming mustering halting receiving crossing assigned " +
		"active resized retreating failing error reverting undoing restoring stranded shelving offloading shelved " +
		"unassigning releasing lingering deleted"
	later := stages[1:] // version 1 has no `preparing`
	for i, old := range strings.Fields(before) {
		if now := upgradeState(old); now != later[i].stored {
			t.Errorf("%s of version 1 is read as %s, want %s", old, now, later[i].stored)
		}
	}
}

func storedWords[T comparable](table words[T]) (list []string) {
	for _, one := range table {
		list = append(list, one.stored)
	}
	return list
}

// TestValueWithoutStoredWordIsRejected checks that a value without a word is an error, so that it is not lost.
func TestValueWithoutStoredWordIsRejected(t *testing.T) {
	for _, server := range []lifecycle.Server{
		{ID: "s", State: "dancing"},
		{ID: "s", State: lifecycle.Moving}, // without a move
		{ID: "s", State: lifecycle.Moving, Move: &lifecycle.Move{Phase: "dancing"}},
	} {
		if text, err := encodeServer(server); err == nil || !strings.Contains(err.Error(), "server s") {
			t.Errorf("the server is stored as %s %v", text, err)
		}
	}
}

// TestPhaseIsStoredAsState checks that a server that moves is stored with the phase of its move as its state.
func TestPhaseIsStoredAsState(t *testing.T) {
	for _, phase := range lifecycle.MovePhases() {
		want := lifecycle.Server{ID: "s", State: lifecycle.Moving, Move: &lifecycle.Move{Phase: phase}}
		text, err := encodeServer(want)
		if err != nil {
			t.Fatal(err)
		}
		var record struct {
			State string
			Move  struct {
				Moved bool `json:"allocations_moved"`
			}
		}
		if err := json.Unmarshal(text, &record); err != nil || record.Move.Moved != want.Move.AllocationsMoved() {
			t.Errorf("%s is stored as %s (%v)", phase, text, err)
		}
		if word, err := stages.text(stage(phase)); err != nil || record.State != string(word) {
			t.Errorf("%s is stored as %s (%v)", phase, record.State, err)
		}
		if got, err := decodeServer("s", text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v %v", phase, got, err)
		}
	}
}

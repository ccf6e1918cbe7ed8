package record

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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

// TestEveryConstantIsAKnownWord checks that the lists of words have every constant and nothing else.
func TestEveryConstantIsAKnownWord(t *testing.T) {
	for types, list := range map[string][]string{
		"State": texts(lifecycle.States()), "MovePhase": texts(lifecycle.MovePhases()), "Task": texts(lifecycle.Tasks()),
		"Kind": texts(lifecycle.Kinds()), "Power": texts(lifecycle.Powers()),
	} {
		found := slices.Sorted(maps.Values(constants(t, types)))
		if slices.Sort(list); len(found) == 0 || !slices.Equal(found, list) {
			t.Errorf("the constants of %s are %q, its list is %q", types, found, list)
		}
	}
	for word := range stages {
		if len(word) > 32 { // the size of the column
			t.Errorf("the word %s is too long", word)
		}
	}
}

// texts returns words as texts.
func texts[T ~string](words []T) []string { return each(words, func(w T) string { return string(w) }) }

// TestStoredWordsAreUnchanged checks the stored words, which are the same in every database.
func TestStoredWordsAreUnchanged(t *testing.T) {
	var known []string
	for word, is := range stages {
		if is && word != "" {
			known = append(known, word)
		}
	}
	for typ, got := range map[string][]string{"State": known, "Task": texts(lifecycle.Tasks()),
		"Kind": texts(lifecycle.Kinds()), "Power": texts(lifecycle.Powers()[1:])} {
		want := strings.Fields(map[string]string{
			"State": "preparing scheduling planning moving_allocations awaiting_source_ack claiming awaiting_min_count " +
				"stopping_source pre_live_migration live_migrating spawning active resized rescheduling failing " +
				"error reverting releasing_destination restoring_allocations revert_blocked shelving offloading " +
				"shelved deleting_guest deleting_allocation deleted_awaiting_cleanup deleted binding_ports",
			"Task": "powering-off powering-on rebooting rebooting_hard reboot_started reboot_started_hard rebuilding " +
				"pausing unpausing suspending resuming rescuing unrescuing resize_reverting migrating " +
				"soft-deleting restoring unshelving " +
				"shelving_image_pending_upload shelving_image_uploading image_snapshot image_backup image_uploading",
			"Kind":  "resize migration live-migration evacuation",
			"Power": "off paused suspended",
		}[typ])
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s: %s\nbefore: %s", typ, got, want)
		}
	}
}

// TestUnknownWordIsNotStored checks that an unknown word is an error, so that no record is written that cannot be read.
func TestUnknownWordIsNotStored(t *testing.T) {
	for _, server := range []lifecycle.Server{
		{ID: "s", State: "dancing"},
		{ID: "s", State: lifecycle.Moving}, // without a move
		{ID: "s", State: lifecycle.Moving, Move: &lifecycle.Move{Phase: "dancing"}},
		{ID: "s", State: lifecycle.Moving, Move: &lifecycle.Move{Phase: lifecycle.Planning, Kind: "dance"}},
		{ID: "s", Migration: &lifecycle.Migration{Kind: "dance"}}, {ID: "s", Task: "dance"}, {ID: "s", Power: "half"},
	} {
		if text, err := EncodeServer(server); err == nil || !strings.Contains(err.Error(), "server s") {
			t.Errorf("the server is stored as %s %v", text, err)
		}
	}
}

// TestPhaseIsStoredAsState checks that a server that moves is stored with the phase of its move as its state.
func TestPhaseIsStoredAsState(t *testing.T) {
	for _, phase := range lifecycle.MovePhases() {
		want := lifecycle.Server{ID: "s", State: lifecycle.Moving, Move: &lifecycle.Move{Phase: phase}}
		text, err := EncodeServer(want)
		if err != nil {
			t.Fatal(err)
		}
		var record struct{ State lifecycle.MovePhase }
		if err := json.Unmarshal(text, &record); err != nil || record.State != phase {
			t.Errorf("%s is stored as %s (%v)", phase, text, err)
		}
		if got, err := DecodeServer("s", text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v %v", phase, got, err)
		}
	}
}

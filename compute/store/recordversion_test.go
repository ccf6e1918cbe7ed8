package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
)

// filler sets the fields of a value to different values, so that a test detects exchanged fields.
type filler struct {
	n     int
	empty bool // lists, maps and pointers are empty and not nil; other values are zero
	bit   int  // of n, counted from 1: a bool is true if this bit of n is set. 0: every bool is true
}

// bits is the number of bits that a filler needs to distinguish all bools.
const bits = 12

// filled returns a value with every exported field set, at any depth.
func filled[T any]() (v T) {
	(&filler{}).fill(reflect.ValueOf(&v).Elem())
	return v
}

// filledByBit returns a value like filled. For any two bools there is a bit for which they differ.
func filledByBit[T any](bit int) (v T) {
	f := filler{bit: bit}
	f.fill(reflect.ValueOf(&v).Elem())
	if f.n >= 1<<bits {
		panic("the filler needs more bits")
	}
	return v
}

// emptied returns a value whose lists, maps and pointers are empty and not nil.
func emptied[T any]() (v T) {
	(&filler{empty: true}).fill(reflect.ValueOf(&v).Elem())
	return v
}

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.length(), f.length()))
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.length() {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		f.fillStruct(v)
	default:
		if !f.empty {
			f.fillOne(v)
		}
	}
}

func (f *filler) length() int {
	if f.empty {
		return 0
	}
	return 2
}

func (f *filler) fillStruct(v reflect.Value) {
	switch v.Addr().Interface().(type) {
	case *time.Time:
		if !f.empty {
			v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 1000*f.n, time.UTC)))
		}
	case *pci.Address:
		if !f.empty {
			v.Set(reflect.ValueOf(pci.Address{Domain: 0x10000, Bus: uint8(f.n), Slot: 0x1f, Func: 7}))
		}
	default:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i))
			}
		}
	}
}

func (f *filler) fillOne(v reflect.Value) {
	word := map[reflect.Type]any{
		reflect.TypeFor[lifecycle.State]():     lifecycle.Moving,
		reflect.TypeFor[lifecycle.MovePhase](): lifecycle.LiveMigrating,
		reflect.TypeFor[lifecycle.Task]():      lifecycle.ResizeReverting,
		reflect.TypeFor[lifecycle.Kind]():      lifecycle.LiveMigration,
		reflect.TypeFor[lifecycle.Power]():     lifecycle.Off,
	}[v.Type()]
	switch {
	case word != nil:
		v.Set(reflect.ValueOf(word))
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("text %d", f.n))
	case v.Kind() == reflect.Bool:
		v.SetBool(f.bit == 0 || f.n>>(f.bit-1)&1 == 1)
	case v.Kind() == reflect.Int64:
		v.SetInt(1<<53 + 1 + 2*int64(f.n)) // a number that float64 cannot represent
	case v.CanInt():
		v.SetInt(int64(f.n))
	case v.CanUint():
		v.SetUint(uint64(f.n))
	case v.CanFloat():
		v.SetFloat(float64(f.n) + 0.25)
	default:
		panic("the filler does not support " + v.Type().String())
	}
}

// unset returns the path of an exported field that is zero, or "".
func unset(path string, v reflect.Value) string {
	switch {
	case v.IsZero():
		return path
	case v.Kind() == reflect.Pointer:
		return unset(path, v.Elem())
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			if at := unset(fmt.Sprintf("%s[%d]", path, i), v.Index(i)); at != "" {
				return at
			}
		}
	case v.Type() == reflect.TypeFor[time.Time](), v.Type() == reflect.TypeFor[pci.Address]():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() {
				continue
			}
			if at := unset(path+"."+v.Type().Field(i).Name, v.Field(i)); at != "" {
				return at
			}
		}
	}
	return ""
}

// recordedPart returns a host without the fields that are not part of its record.
func recordedPart(h schedule.Host) schedule.Host {
	h.Guests, h.Load, h.Seen = nil, 0, time.Time{}
	return h
}

// TestRecordsKeepEveryField checks that a record keeps every field of a server and of a host. A new field that the
// record lacks fails here or does not compile.
func TestRecordsKeepEveryField(t *testing.T) {
	if at := unset("", reflect.ValueOf(filled[lifecycle.Server]())); at != "" {
		t.Fatalf("this test does not fill Server%s", at)
	}
	servers := map[string]lifecycle.Server{
		"filled": filled[lifecycle.Server](), "emptied": emptied[lifecycle.Server](), "zero": {},
	}
	hosts := map[string]schedule.Host{
		"filled": filled[schedule.Host](), "emptied": emptied[schedule.Host](), "zero": {},
	}
	for bit := 1; bit <= bits; bit++ {
		servers[fmt.Sprint("bit ", bit)] = filledByBit[lifecycle.Server](bit)
		hosts[fmt.Sprint("bit ", bit)] = filledByBit[schedule.Host](bit)
	}
	for name, want := range servers {
		text, err := encodeServer(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeServer(want.ID, text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the %s server is stored as %s, which is read as\n%+v %v, want\n%+v", name, text, got, err, want)
		}
	}
	if at := unset("", reflect.ValueOf(filled[schedule.Host]())); at != "" {
		t.Fatalf("this test does not fill Host%s", at)
	}
	for name, want := range hosts {
		text, err := encodeHost(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decodeHost(want.Name, text); err != nil || !reflect.DeepEqual(got, recordedPart(want)) {
			t.Errorf("the %s host is stored as %s, which is read as\n%+v %v, want\n%+v",
				name, text, got, err, recordedPart(want))
		}
	}
}

// compact reads an indented JSON file of testdata without its white space.
func compact(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	var b bytes.Buffer
	if err == nil {
		err = json.Compact(&b, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRecordOfVersion3IsUnchanged checks that records of version 3 are read and written as before. A record in another
// form needs another version.
func TestRecordOfVersion3IsUnchanged(t *testing.T) {
	text := compact(t, "records-v3/filled-server.json")
	server, err := decodeServer("text 2", text)
	if err != nil {
		t.Fatal(err)
	}
	if at := unset("", reflect.ValueOf(server)); at != "" {
		t.Errorf("no record of version 3 has Server%s; raise recordVersion", at)
	}
	if now, err := encodeServer(server); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%v, a server is written as\n%s\nbefore as\n%s", err, now, text)
	}
	text = compact(t, "records-v3/filled-host.json")
	host, err := decodeHost("text 2", text)
	if err != nil {
		t.Fatal(err)
	}
	host.Seen, host.Guests, host.Load = time.Now(), []schedule.Guest{filled[schedule.Guest]()}, 1
	if at := unset("", reflect.ValueOf(host)); at != "" {
		t.Errorf("no record of version 3 has Host%s; raise recordVersion", at)
	}
	if now, err := encodeHost(host); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%v, a host is written as\n%s\nbefore as\n%s", err, now, text)
	}
}

// TestRecordOfVersion2IsReadAsVersion3 checks that every field of version 2 is read as the same field of version 3,
// which only has one more state.
func TestRecordOfVersion2IsReadAsVersion3(t *testing.T) {
	for _, read := range []func(dir string) (any, error){
		func(dir string) (any, error) { return decodeServer("text 2", compact(t, dir+"/filled-server.json")) },
		func(dir string) (any, error) { return decodeHost("text 2", compact(t, dir+"/filled-host.json")) },
	} {
		before, err := read("records-v2")
		if err != nil {
			t.Fatal(err)
		}
		if now, err := read("records-v3"); err != nil || !reflect.DeepEqual(before, now) {
			t.Errorf("version 2 is read as\n%+v\nversion 3 is read as\n%+v (%v)", before, now, err)
		}
	}
}

// TestRecordOfVersion1IsReadAsVersion2 checks that every field of version 1 is read as the same field of version 2.
func TestRecordOfVersion1IsReadAsVersion2(t *testing.T) {
	server, err := decodeServer("text 2", compact(t, "records-v1/filled-server.json"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := decodeServer("text 2", compact(t, "records-v2/filled-server.json"))
	if err != nil || !reflect.DeepEqual(server, want) {
		t.Errorf("the server is read as\n%+v\nwant\n%+v (%v)", server, want, err)
	}
	host, err := decodeHost("text 2", compact(t, "records-v1/filled-host.json"))
	if err != nil {
		t.Fatal(err)
	}
	wantHost, err := decodeHost("text 2", compact(t, "records-v2/filled-host.json"))
	if err != nil || !reflect.DeepEqual(host, wantHost) {
		t.Errorf("the host is read as\n%+v\nwant\n%+v (%v)", host, wantHost, err)
	}
}

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
		if text, err := stages.text(one); err != nil || len(text) == 0 || len(text) > 32 { // the size of the column
			t.Errorf("the stage %s is stored as %q %v", one, text, err)
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
				"shelved deleting_guest deleting_allocation deleted_awaiting_cleanup deleted",
			"Task": "powering-off powering-on rebooting rebooting_hard reboot_started reboot_started_hard rebuilding " +
				"resize_reverting migrating",
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

package config

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

func parseConfig(t *testing.T, texts ...string) *Config {
	t.Helper()
	c := New()
	for i, text := range texts {
		file, err := Parse([]string{"first.conf", "second.conf"}[i], []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c.files = append(c.files, file)
	}
	return c
}

// wantFault checks an error's kind and its text without the operation.
func wantFault(t *testing.T, err error, kind fault.Kind, text string) {
	t.Helper()
	if !fault.Is(err, kind) || fault.TextOf(err) != text {
		t.Errorf("got  %s: %v\nwant %s: %s", fault.KindOf(err), fault.TextOf(err), kind, text)
	}
}

func TestParseErrors(t *testing.T) {
	cases := []struct{ name, text, want string }{
		{
			"continuation without an option",
			"[a]\n\n  x",
			`f.conf:3: "  x" begins with a blank, which continues an option, but there is no option above it; remove the blank`,
		},
		{
			"group without a closing bracket",
			"# c\n[a # d",
			`f.conf:2: "[a # d" begins a group but does not end with ]; nothing may follow the bracket, not even a comment`,
		},
		{"group without a name", "[]", "f.conf:1: the group has no name; write one such as [DEFAULT]"},
		{
			"option without a separator",
			"[a]\nx 100%",
			"f.conf:2: \"x 100%\" is not an option; write `name = value`, or # before a comment",
		},
		{"option without a name", "[a]\n= 1", `f.conf:2: "= 1" has no name before its '='`},
		{"option before the first group", "\nx = 1",
			"f.conf:2: option x is before the first group; write [DEFAULT] or another " +
				"group above it"},
		{"byte order mark", "\ufeff[a]", "f.conf:1: the file begins with a byte order mark; save it as UTF-8 without one"},
		{"bytes that are not UTF-8", "[a]\nx = \xff", "f.conf:2: the line is not UTF-8 text; save the file in that encoding"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f.conf", []byte(c.text))
			wantFault(t, err, fault.Invalid, c.want)
		})
	}
}

func TestEntryHasFileAndLine(t *testing.T) {
	c := parseConfig(t, "# c\n[pci]\nspec = {\n  1}\n\nspec : 2\n", "[PCI]\nspec = 3")
	got := c.All("pci", "spec")
	want := []Entry{
		{File: "first.conf", Line: 3, Group: "pci", Option: "spec", Value: "{\n1}"},
		{File: "first.conf", Line: 6, Group: "pci", Option: "spec", Value: "2"},
		{File: "second.conf", Line: 2, Group: "PCI", Option: "spec", Value: "3"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	last, found := c.Get("pci", "spec")
	if !found || last != want[2] || last.Place() != "second.conf:2" {
		t.Errorf("Get returned %+v, want the last entry", last)
	}
	if e, found := c.Get("pci", "Spec"); found {
		t.Errorf("found %+v by a name in another case", e)
	}
}

func TestEntryFault(t *testing.T) {
	long := strings.Repeat("é", 161)
	cases := []struct{ line, want string }{
		{
			`device_spec = {"vendor_id":` + "\n  " + `"8o86"}`,
			`first.conf:2: [pci] device_spec = {"vendor_id": "8o86"}: wrong`,
		},
		{"x =", `first.conf:2: [pci] x = "": wrong`},
		{"x = 100%s", "first.conf:2: [pci] x = 100%s: wrong"},
		{"x = " + long, "first.conf:2: [pci] x = " + long[:2*160] + "…: wrong"},
		{"admin_password = hunter2", "first.conf:2: [pci] admin_password = ***: wrong"},
		{"admin_token = x", "first.conf:2: [pci] admin_token = ***: wrong"},
		{"application_credential_secret = x", "first.conf:2: [pci] application_credential_secret = ***: wrong"},
		{"memcache_secret_key = x", "first.conf:2: [pci] memcache_secret_key = ***: wrong"},
		{"private_key_passphrase = x", "first.conf:2: [pci] private_key_passphrase = ***: wrong"},
		{"token_cache_time = soon", "first.conf:2: [pci] token_cache_time = soon: wrong"},
		{"service_token_roles_required = maybe", "first.conf:2: [pci] service_token_roles_required = maybe: wrong"},
		{"connection = mysql+pymysql://u:hun/t:er2@h/d?x=a:b", "first.conf:2: [pci] connection = " +
			"mysql+pymysql://u:***@h/d?x=a:b: wrong"},
		{"connection = sqlite:////a@b.db", "first.conf:2: [pci] connection = sqlite:////a@b.db: wrong"},
		{"transport_url = rabbit://a:x@h1,rabbit://b:y@h2/", "first.conf:2: [pci] transport_url = " +
			"rabbit://a:***@h1,rabbit://b:***@h2/: wrong"},
	}
	for _, c := range cases {
		e := parseConfig(t, "[pci]\n"+c.line).files[0].Entries[0]
		wantFault(t, e.Fault("test", "%s", "wrong"), fault.Invalid, c.want)
	}
}

func TestReadErrorNamesPlaceProblemAndRemedy(t *testing.T) {
	c := parseConfig(t, "[a]\nword = many\nnumber = 10\nreal = 1.5\nnan = nan\ninf = -inf\nbig = "+
		"99999999999999999999\nlost = $nowhere\nself = x$self\n")
	errorOf := func(_ any, err error) error { return err }
	cases := []struct {
		err  error
		want string
	}{
		{errorOf(c.Bool("a", "word", true)), "first.conf:2: [a] word = many: is neither true nor false; write true or " +
			"false (also yes and no, on and off, 1 and 0)"},
		{errorOf(c.Int("a", "word", 1, math.MinInt, math.MaxInt)), "first.conf:2: [a] word = many: is not a whole number; " +
			"write one such as 7"},
		{errorOf(c.Int("a", "number", 1, 1, 9)), "first.conf:3: [a] number = 10: is out of bounds; write a whole " +
			"number from 1 to 9"},
		{errorOf(c.Int("a", "number", 1, 11, math.MaxInt)), "first.conf:3: [a] number = 10: is out of bounds; write a " +
			"whole number of at least 11"},
		{errorOf(c.Int("a", "big", 1, math.MinInt, 9)), "first.conf:7: [a] big = 99999999999999999999: is not a whole " +
			"number; write one of at most 9"},
		{errorOf(c.Float("a", "real", 1, 0, 1)), "first.conf:4: [a] real = 1.5: is out of bounds; write a number from " +
			"0 to 1"},
		{errorOf(c.Float("a", "nan", 1, 0, math.Inf(1))), "first.conf:5: [a] nan = nan: is not a number; write one of at " +
			"least 0"},
		{errorOf(c.Float("a", "inf", 1, math.Inf(-1), math.Inf(1))), "first.conf:6: [a] inf = -inf: is not a number; " +
			"write one such as 7"},
		{errorOf(c.String("a", "word", "", []string{"one", "two"})),
			"first.conf:2: [a] word = many: is not a valid choice; " +
				"write one of one, two"},
		{errorOf(c.String("a", "lost", "", nil)), "first.conf:8: [a] lost = $nowhere: $nowhere names an option that no " +
			"file sets; set it, or write $$ for a dollar sign"},
		{errorOf(c.Strings("a", "self", nil)), "first.conf:9: [a] self = x$self: $self leads back to the option itself"},
	}
	for _, c := range cases {
		wantFault(t, c.err, fault.Invalid, c.want)
	}
}

func TestUnsetOptionHasDefault(t *testing.T) {
	c := parseConfig(t, "[a]\nn =\nf =\n")
	b, _ := c.Bool("a", "none", true)
	i, _ := c.Int("a", "n", 7, 0, 9)
	f, _ := c.Float("a", "f", 0.5, 0, 1)
	s, _ := c.String("a", "none", "d", nil)
	l, _ := c.Strings("a", "none", []string{"d"})
	if !b || i != 7 || f != 0.5 || s != "d" || len(l) != 1 {
		t.Errorf("got %v %v %v %v %v", b, i, f, s, l)
	}
}

func TestUnknownOptionsAreListed(t *testing.T) {
	c := parseConfig(t, "[DEFAULT]\nx = 1\n[PCI]\nalias = 1\nailas = 1\n", "[default]\nx = 2\n")
	var got []string
	for _, e := range c.Unknown([]Name{{"DEFAULT", "x"}, {"pci", "alias"}, {"pci", "device_spec"}}) {
		got = append(got, e.Place())
	}
	if want := []string{"first.conf:5", "second.conf:2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("unknown %q, want %q", got, want)
	}
}

// TestReferencesAreBounded reads values whose references double at each level.
func TestReferencesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("[a]\n")
	for c := 'a'; c < 'z'; c++ {
		text.WriteString(string(c) + " = $" + string(c+1) + "$" + string(c+1) + "\n")
	}
	text.WriteString("z = z\n")
	if _, err := parseConfig(t, text.String()).String("a", "a", "", nil); !strings.Contains(fault.TextOf(err),
		"more than 1000 references") {
		t.Error(err)
	}
	if got, err := parseConfig(t, text.String()).String("a", "s", "", nil); err != nil || len(got) != 1<<7 {
		t.Errorf("%d characters, want %d: %v", len(got), 1<<7, err)
	}
}

func TestLaterFilesOverrideEarlierOnes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, two := write("one.conf", "[a]\nx = 1\n"), write("two.conf", "[a]\nx = 2\n")
	wrong, long := write("wrong%d.conf", "[a\n"), write("long.conf", strings.Repeat("#", maxFile+1))
	for _, c := range []struct{ paths, want string }{{one + " " + two, "2"}, {two + " " + one, "1"}, {two, "2"}} {
		config, err := Load(strings.Fields(c.paths)...)
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := config.Get("a", "x"); e.Value != c.want {
			t.Errorf("%s: x is %q", c.paths, e.Value)
		}
	}
	missing := filepath.Join(dir, "none.conf")
	_, err := Load(one, missing)
	wantFault(t, err, fault.NotFound, "configuration file "+missing+" does not exist")
	_, err = Load(wrong)
	wantFault(
		t,
		err,
		fault.Invalid,
		wrong+`:1: "[a" begins a group but does not end with ]; nothing may follow the bracket, not even a comment`,
	)
	if _, err = Load(dir); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: %v", err)
	}
	if _, err = Load(long); !fault.Is(err, fault.Invalid) {
		t.Errorf("a long file: %v", err)
	}
}

// values returns a file's entries without their places.
func values(f *File) []Entry {
	list := []Entry{}
	for _, e := range f.Entries {
		list = append(list, Entry{Group: e.Group, Option: e.Option, Value: e.Value})
	}
	return list
}

func TestPrintKeepsEveryEntry(t *testing.T) {
	file := parseConfig(t, "[b]\nx=1\n\n# c\n[a]\ny = \" 2\n  3\"\n  4\nz =\nw = '\"q\"'\ne = \" \"\n\f[v:1\n[b]\nx = "+
		"2").files[0]
	want := "[b]\nx = 1\n\n[a]\ny = \" 2\n  3\"\n  4\nz =\nw = \"\"q\"\"\ne = \" \"\n\f[v = 1\n\n[b]\nx = 2\n"
	if got := string(file.Print()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzParse checks that no text makes the package panic, and that Print keeps every entry.
func FuzzParse(f *testing.F) {
	cases, _ := readOsloCases(f)
	for _, c := range cases.Parse {
		f.Add([]byte(c.Text))
	}
	for _, c := range cases.Read {
		f.Add([]byte(strings.Join(c.Files, "\n")))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("f.conf", text)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("kind %s: %v", fault.KindOf(err), err)
			}
			return
		}
		printed := file.Print()
		again, err := Parse("f.conf", printed)
		if err != nil {
			t.Fatalf("%q was printed as %q, which does not parse: %v", text, printed, err)
		}
		if !reflect.DeepEqual(values(file), values(again)) {
			t.Fatalf("%+v\nbecame %+v\nafter printing as %q", values(file), values(again), printed)
		}
		config := New(file)
		for _, e := range file.Entries {
			for _, all := range config.All(e.Group, e.Option) {
				_ = all.Check("test")
			}
			if _, found := config.Get(e.Group, e.Option); !found {
				t.Errorf("[%s] %s was parsed, but Get does not find it", e.Group, e.Option)
			}
		}
	})
}

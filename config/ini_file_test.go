package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

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

func TestPrintKeepsEveryEntry(t *testing.T) {
	file := parseConfig(t, "[b]\nx=1\n\n# c\n[a]\ny = \" 2\n  3\"\n  4\nz =\nw = '\"q\"'\ne = \" \"\n\f[v:1\n[b]\nx = "+
		"2").files[0]
	want := "[b]\nx = 1\n\n[a]\ny = \" 2\n  3\"\n  4\nz =\nw = \"\"q\"\"\ne = \" \"\n\f[v = 1\n\n[b]\nx = 2\n"
	if got := string(file.Print()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
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
				_ = all.Check()
			}
			if _, found := config.Get(e.Group, e.Option); !found {
				t.Errorf("[%s] %s was parsed, but Get does not find it", e.Group, e.Option)
			}
		}
	})
}

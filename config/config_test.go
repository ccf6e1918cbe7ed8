package config

import (
	"os"
	"path/filepath"
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

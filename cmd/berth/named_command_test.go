package main

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/cli"
)

// A command line that begins with a command is read with the tree of that command alone, and its help is that of the
// whole tree.
func TestOnlyTheNamedCommandIsBuilt(t *testing.T) {
	children := func(args ...string) []*kong.Node {
		g := grammar{Commands: cli.NewCommands()}
		parser, err := kong.New(&g, kong.Vars{"version": "test"}, namedCommand(reflect.TypeFor[grammar](), args))
		must(t, err)
		return parser.Model.Children
	}
	all := children("--help")
	for _, node := range all {
		name := node.Name
		if built := children(name, "x"); slices.Contains(wholeTree, name) {
			if len(built) != len(all) {
				t.Errorf("for %s %d of %d commands are built", name, len(built), len(all))
			}
		} else if len(built) != 1 || built[0].Name != name {
			t.Errorf("for %s %d commands are built", name, len(built))
		}
		var whole, alone, errs bytes.Buffer
		if status := run([]string{"--help", name}, &whole, &errs); status != 0 {
			t.Fatal(errs.String())
		}
		if status := run([]string{name, "--help"}, &alone, &errs); status != 0 || alone.String() != whole.String() {
			t.Errorf("status %d %s: the help of %s is %s; with all commands it is %s", status, &errs, name, &alone, &whole)
		}
	}
	for _, first := range []string{"srver", "--server", "help", ""} {
		if built := children(first, "server"); len(built) != len(all) {
			t.Errorf("for %q %d of %d commands are built", first, len(built), len(all))
		}
	}
}

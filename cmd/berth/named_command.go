package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// wholeTree are the commands that show all commands.
var wholeTree = []string{"completion", "manual"}

// namedCommand returns the option with which Kong builds the command that args begin with and no other, which halves
// the time of a start. commands is the type of the struct of all commands. Kong builds them all if args begin with
// something else: a flag, a mistyped command, or a command of wholeTree.
func namedCommand(commands reflect.Type, args []string) kong.Option {
	var others []string
	found := false
	for _, field := range reflect.VisibleFields(commands) {
		if _, is := field.Tag.Lookup("cmd"); !is {
			continue
		}
		name := field.Tag.Get("name")
		if name == "" {
			name = strings.ToLower(field.Name)
		}
		if name == args[0] {
			found = true
		} else {
			others = append(others, field.Name)
		}
	}
	if !found || slices.Contains(wholeTree, args[0]) {
		return kong.OptionFunc(func(*kong.Kong) error { return nil })
	}
	return kong.IgnoreFields("^" + commands.Name() + `\.(` + strings.Join(others, "|") + ")$")
}

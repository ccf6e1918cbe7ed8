package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// usageSentence returns the sentence about a command line that is not valid. After an unknown or missing verb it lists
// the verbs of the command.
func usageSentence(err error) string {
	text := plainWords(sentence(err))
	var parse *kong.ParseError
	if !errors.As(err, &parse) || parse.Context == nil {
		return text + "; `berth --help` shows the commands"
	}
	command := "berth"
	at := parse.Context.Model.Node
	if selected := parse.Context.Selected(); selected != nil {
		at = selected
	}
	unknown := strings.HasPrefix(text, "unexpected argument ")
	missing := strings.HasPrefix(text, "expected one of ")
	for unknown && len(at.Positional) == 0 && len(verbs(at)) == 0 && at.Parent != nil { // a default verb was selected
		at = at.Parent
	}
	if path := at.Path(); path != "" {
		command += " " + path
	}
	list := verbs(at)
	switch {
	case len(list) == 0 || !unknown && !missing:
		return fmt.Sprintf("%s; `%s --help` shows the usage", text, command)
	case missing:
		text = "a command is missing"
	}
	return fmt.Sprintf("%s; the commands of `%s` are %s", text, command, strings.Join(list, ", "))
}

// valueErrors are the forms of the parser's errors about values of flags, with the words of this program.
var valueErrors = []struct {
	form *regexp.Regexp
	text string
}{{regexp.MustCompile(`expected a valid \d+ bit u?int but got`), "write a whole number instead of"},
	{regexp.MustCompile(`expected an? (?:int|float) but got`), "write a number instead of"},
	{regexp.MustCompile(`expected duration but got ("(?:[^"\\]|\\.)*")(?:: time: .*)?`),
		"write a duration such as 30s or 10m instead of $1"},
	{regexp.MustCompile(`^expected "(<[^"]*)"$`), "an argument is missing: $1"},
	{regexp.MustCompile(`: expected \w+ value but got "EOL" \(<EOL>\)`), ": the value is missing"}}

// plainWords returns an error of the parser without its words for types.
func plainWords(text string) string {
	for _, one := range valueErrors {
		text = one.form.ReplaceAllString(text, one.text)
	}
	return text
}

// joinNegative returns a command line in which a negative number is joined with the flag before it: --count -1 becomes
// --count=-1. No flag of one letter is a digit, so it can be the value only.
func joinNegative(args []string) []string {
	var out []string
	for _, arg := range args {
		last := len(out) - 1
		negative := len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
		if negative && last >= 0 && strings.HasPrefix(out[last], "--") && out[last] != "--" &&
			!strings.Contains(out[last], "=") {
			out[last] += "=" + arg
			continue
		}
		out = append(out, arg)
	}
	return out
}

// verbs returns the names of the commands below a command.
func verbs(n *kong.Node) (names []string) {
	for _, child := range n.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			names = append(names, child.Name)
		}
	}
	return names
}

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"The shell: bash, zsh or fish."`
}

// Run prints the script, which is made from the command line's own table.
func (c *completionCmd) Run(s streams, app *kong.Application) error {
	write := map[string]func([]commandWords, io.Writer) error{"bash": writeBash, "zsh": writeZsh, "fish": writeFish}
	return write[c.Shell](wordsOf(app.Node, ""), s.out)
}

// commandWords are the words that may follow a command.
type commandWords struct {
	path     string // of the command: "/server/create"; empty: the program itself
	names    string // the command that prints the names of its arguments; empty: they are not objects
	children []described
	flags    []flagWords // of the command alone; those of the program are in the row of the program
}

// described is a word with its description.
type described struct{ word, help string }

type flagWords struct {
	described          // with its dashes
	short     string   // with its dash; empty: none
	value     bool     // a value follows
	values    []string // the possible ones; empty: any
	names     string   // the command that prints the names of its values; empty: they are not objects
}

// listsOfFlags are the commands that list the objects that flags name.
var listsOfFlags = map[string]string{"flavor": "flavor list", "image": "image list", "network": "network list",
	"port": "port list", "server": "server list", "host": "host list", "from": "host list",
	"qos-policy": "qos policy list", "security-group": "security-group list", "remote-group": "security-group list",
	"key": "keypair list"}

// namesOf returns the command that prints the names of a list, one a line after a header; empty for no list.
func namesOf(list string) string {
	switch list {
	case "":
		return ""
	case "host list":
		return list + " -c Host"
	}
	return list + " -c Name"
}

// listBeside returns the command that lists the objects that a command takes: list beside it. Empty: its arguments are
// no objects, or the list has arguments itself.
func listBeside(node *kong.Node) string {
	if len(node.Positional) == 0 || node.Parent == nil || node.Name == "create" || node.Name == "add" {
		return ""
	}
	for _, sibling := range node.Parent.Children {
		if sibling.Name == "list" && len(sibling.Positional) == 0 && sibling.Parent.Name != "device" {
			return sibling.Path()
		}
	}
	return ""
}

// wordsOf returns the rows of a command and those below it.
func wordsOf(node *kong.Node, path string) []commandWords {
	row := commandWords{path: path, names: namesOf(listBeside(node))}
	for _, flag := range node.Flags {
		if flag.Hidden {
			continue
		}
		words := flagWords{described: described{"--" + flag.Name, firstSentence(flag.Help)}, value: !flag.IsBool() &&
			!flag.IsCounter(), values: slices.DeleteFunc(flag.EnumSlice(), func(s string) bool { return s == "" })}
		if words.value {
			words.names = namesOf(listsOfFlags[flag.Name])
		}
		if flag.Short != 0 {
			words.short = "-" + string(flag.Short)
		}
		row.flags = append(row.flags, words)
	}
	var below []commandWords
	for _, child := range node.Children {
		if child.Type != kong.CommandNode || child.Hidden {
			continue
		}
		row.children = append(row.children, described{child.Name, firstSentence(child.Help)})
		below = append(below, wordsOf(child, path+"/"+child.Name)...)
	}
	return append([]commandWords{row}, below...)
}

// firstSentence returns the beginning of a help text, without its period.
func firstSentence(text string) string {
	text, _, _ = strings.Cut(text, ". ")
	return strings.TrimSuffix(text, ".")
}

// follow is the loop that bash and zsh share: it sets at to the path of the command, and skips the values of flags.
func follow(rows []commandWords, words, first, last string) string {
	var paths, valued []string
	for _, row := range rows {
		if row.path != "" {
			paths = append(paths, row.path)
		}
		for _, flag := range row.flags {
			if flag.value {
				valued = append(valued, flag.word)
				if flag.short != "" {
					valued = append(valued, flag.short)
				}
			}
		}
	}
	slices.Sort(valued)
	return fmt.Sprintf(`	for ((i = %s; i < %s; i++)); do
		word=${%s[i]}
		case $word in
		%s)
			i=$((i + 1))
			continue
			;;
		-*) continue ;;
		esac
		case $at/$word in
		%s) at=$at/$word ;;
		esac
	done
`, first, last, words, strings.Join(slices.Compact(valued), " | "), strings.Join(paths, " | "))
}

// printNames begins the command that prints names: it is given up after two seconds, and prints nothing then.
const printNames = "timeout 2 berth "

// valuesOf returns the branches of a case on a flag whose values are known; line returns what a branch does, and named
// what it does for the names of objects.
func valuesOf(rows []commandWords, line func(values []string) string, named func(names string) string) string {
	out, seen := strings.Builder{}, map[string]bool{}
	for _, row := range rows {
		for _, flag := range row.flags {
			pattern := flag.word
			if flag.short != "" {
				pattern += " | " + flag.short
			}
			if len(flag.values) == 0 && flag.names == "" || seen[flag.word] {
				continue
			}
			seen[flag.word] = true
			does := named(flag.names)
			if len(flag.values) > 0 {
				does = line(flag.values)
			}
			fmt.Fprintf(&out, "\t%s)\n%s\t\t;;\n", pattern, does)
		}
	}
	return out.String()
}

// allFlags returns the flags of a command and those of the program, whose row is the first.
func allFlags(rows []commandWords, row commandWords) []flagWords {
	if row.path == "" {
		return row.flags
	}
	return append(slices.Clone(row.flags), rows[0].flags...)
}

// writeBash writes the script for bash.
func writeBash(rows []commandWords, w io.Writer) error {
	out := strings.Builder{}
	out.WriteString("# Completion of berth for bash; made by `berth completion bash`.\n_berth_names() {\n" +
		"\tmapfile -t COMPREPLY < <(compgen -W \"$(" + printNames + "\"$@\" 2>/dev/null | tail -n +2)\" -- \"$cur\")\n}\n" +
		"_berth() {\n\tlocal at='' word i words='' flags='' names='' cur=${COMP_WORDS[COMP_CWORD]}\n")
	out.WriteString(follow(rows, "COMP_WORDS", "1", "COMP_CWORD"))
	out.WriteString("\tcase ${COMP_WORDS[COMP_CWORD - 1]} in\n" + valuesOf(rows, func(values []string) string {
		return "\t\tmapfile -t COMPREPLY < <(compgen -W '" + strings.Join(values, " ") + "' -- \"$cur\")\n\t\treturn\n"
	}, func(names string) string {
		return "\t\t_berth_names " + names + "\n\t\treturn\n"
	}) + "\tesac\n\tcase $at in\n")
	for _, row := range rows {
		var words, flags []string
		for _, child := range row.children {
			words = append(words, child.word)
		}
		for _, flag := range allFlags(rows, row) {
			flags = append(flags, flag.word)
		}
		fmt.Fprintf(&out, "\t'%s')\n\t\twords='%s'\n\t\tflags='%s'\n\t\tnames='%s'\n\t\t;;\n", row.path,
			strings.Join(words, " "), strings.Join(flags, " "), row.names)
	}
	out.WriteString("\tesac\n\tcase $cur in\n\t-*) words=$flags ;;\n\t*)\n\t\tif [[ $names ]]; then\n" +
		"\t\t\t_berth_names $names\n\t\t\treturn\n\t\tfi\n\t\t;;\n\tesac\n" +
		"\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n}\ncomplete -o default -F _berth berth\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// writeZsh writes the script for zsh: a function of a directory in fpath, or a file that is sourced.
func writeZsh(rows []commandWords, w io.Writer) error {
	entry := func(d described) string {
		return " " + quoted(strings.ReplaceAll(d.word, ":", `\:`)+":"+strings.ReplaceAll(d.help, ":", `\:`))
	}
	out := strings.Builder{}
	out.WriteString("#compdef berth\n# Completion of berth for zsh; made by `berth completion zsh`.\n_berth() {\n" +
		"\tlocal at='' word i names=''\n\tlocal -a list flags\n")
	out.WriteString(follow(rows, "words", "2", "CURRENT"))
	out.WriteString("\tcase $words[CURRENT-1] in\n" + valuesOf(rows, func(values []string) string {
		return "\t\tcompadd " + strings.Join(values, " ") + "\n\t\treturn\n"
	}, func(names string) string {
		return "\t\tcompadd -- ${(f)\"$(" + printNames + names + " 2>/dev/null | tail -n +2)\"}\n\t\treturn\n"
	}) + "\tesac\n\tcase $at in\n")
	for _, row := range rows {
		fmt.Fprintf(&out, "\t'%s')\n\t\tlist=(", row.path)
		for _, child := range row.children {
			out.WriteString(entry(child))
		}
		out.WriteString(" )\n\t\tflags=(")
		for _, flag := range allFlags(rows, row) {
			out.WriteString(entry(flag.described))
		}
		fmt.Fprintf(&out, " )\n\t\tnames='%s'\n\t\t;;\n", row.names)
	}
	out.WriteString("\tesac\n\tif [[ $words[CURRENT] == -* ]]; then\n\t\t_describe -o flag flags\n" +
		"\telif (( $#list )); then\n\t\t_describe command list\n" +
		"\telif [[ -n $names ]]; then\n\t\tcompadd -- ${(f)\"$(" + printNames + "${=names} 2>/dev/null | tail -n +2)\"}\n" +
		"\telse\n\t\t_files\n\tfi\n}\n" +
		"if [[ $funcstack[1] == _berth ]]; then\n\t_berth \"$@\"\nelse\n\tcompdef _berth berth\nfi\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// writeFish writes the script for fish.
func writeFish(rows []commandWords, w io.Writer) error {
	out := strings.Builder{}
	out.WriteString("# Completion of berth for fish; made by `berth completion fish`.\nfunction __berth_at\n" +
		"\tset -l at ''\n\tfor word in (commandline -opc)[2..-1]\n\t\tswitch \"$at/$word\"\n\t\t\tcase")
	for _, row := range rows[1:] {
		out.WriteString(" " + quoted(row.path))
	}
	out.WriteString("\n\t\t\t\tset at \"$at/$word\"\n\t\tend\n\tend\n\ttest \"$at\" = \"$argv[1]\"\nend\n")
	for _, row := range rows {
		at := " -n \"__berth_at '" + row.path + "'\""
		for _, child := range row.children {
			out.WriteString("complete -c berth -f" + at + " -a " + child.word + " -d " + quoted(child.help) + "\n")
		}
		if row.names != "" {
			out.WriteString("complete -c berth -f" + at + " -a \"(" + printNames + row.names +
				" 2>/dev/null | tail -n +2)\"\n")
		}
		if row.path == "" {
			at = "" // the flags of the program are those of every command
		}
		for _, flag := range row.flags {
			out.WriteString("complete -c berth" + at + " -l " + strings.TrimPrefix(flag.word, "--"))
			if flag.short != "" {
				out.WriteString(" -s " + strings.TrimPrefix(flag.short, "-"))
			}
			switch {
			case len(flag.values) > 0:
				out.WriteString(" -x -a " + quoted(strings.Join(flag.values, " ")))
			case flag.names != "":
				out.WriteString(" -x -a \"(" + printNames + flag.names + " 2>/dev/null | tail -n +2)\"")
			case flag.value:
				out.WriteString(" -r")
			}
			out.WriteString(" -d " + quoted(flag.help) + "\n")
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// quoted returns a word in single quotes, without the single quotes in it: shells escape them differently.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", "’") + "'" }

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/alecthomas/kong"
)

type manualCmd struct {
	Dir string `arg:"" help:"The directory, which must exist." type:"existingdir"`
}

// Run writes berth.1, and a page for each command with its subcommands.
func (c *manualCmd) Run(app *kong.Application) error {
	pages := map[string]string{"berth": programPage(app)}
	for _, node := range commandsOf(app.Node) {
		pages["berth-"+node.Name] = commandPage(node)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(c.Dir, name+".1"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// commandsOf returns the commands below a node that help shows.
func commandsOf(node *kong.Node) []*kong.Node {
	var list []*kong.Node
	for _, child := range node.Children {
		if child.Type == kong.CommandNode && !child.Hidden {
			list = append(list, child)
		}
	}
	return list
}

// programPage returns berth(1).
func programPage(app *kong.Application) string {
	out := pageHead("berth", "OpenStack Placement, compute, network, image and host agent in one program")
	out.WriteString(".SH SYNOPSIS\n.B berth\n.I COMMAND\n.RI [ FLAG ...]\n.SH DESCRIPTION\n" + roff(app.Help) +
		"\n.SH COMMANDS\n")
	for _, node := range commandsOf(app.Node) {
		fmt.Fprintf(out, ".TP\n.BR %s (1)\n%s\n", roff("berth-"+node.Name), roff(node.Help))
	}
	out.WriteString(".SH FLAGS\nEvery command has these.\n")
	writeFlags(out, app.Node)
	out.WriteString(".SH \"EXIT STATUS\"\n.TP\n.B 0\nThe command succeeded.\n.TP\n.B 1\nThe command failed; " +
		"the reason is on standard error.\n.TP\n.B 2\nThe command line is not valid.\n.TP\n.B 128 and more\n" +
		"A signal ended the command.\n" +
		".SH FILES\n.TP\n.I /etc/berth/berth.conf\nThe options of the services;\n.B berth options\nprints all of them.\n" +
		".TP\n.I /etc/berth/agent.conf\nThe options of the agent.\n.TP\n.I /etc/berth/environment\nThe addresses of the " +
		"services.\n.TP\n.I /var/lib/berth\nThe state.\n")
	return out.String()
}

// commandPage returns the page of a command with its subcommands.
func commandPage(node *kong.Node) string {
	out := pageHead("berth-"+node.Name, strings.TrimSuffix(node.Help, "."))
	out.WriteString(".SH SYNOPSIS\n")
	writeSynopses(out, node)
	out.WriteString(".SH DESCRIPTION\n" + roff(node.Help) + "\n")
	writeCommand(out, node)
	out.WriteString(".SH \"SEE ALSO\"\n.BR berth (1)\n")
	return out.String()
}

// pageHead begins a page. It has no date, so that the same program writes the same pages.
func pageHead(name, summary string) *strings.Builder {
	out := &strings.Builder{}
	fmt.Fprintf(out, ".TH %s 1 \"\" Berth\n.SH NAME\n%s \\- %s\n", roff(strings.ToUpper(name)), roff(name),
		roff(summary))
	return out
}

// writeSynopses writes a line for each command without subcommands.
func writeSynopses(out *strings.Builder, node *kong.Node) {
	for _, child := range commandsOf(node) {
		writeSynopses(out, child)
	}
	if len(commandsOf(node)) > 0 {
		return
	}
	fmt.Fprintf(out, ".B %s\n", roff(node.FullPath()))
	for _, argument := range node.Positional {
		fmt.Fprintf(out, ".I %s\n", roff(argument.Summary()))
	}
	out.WriteString(".RI [ FLAG ...]\n.br\n")
}

// writeCommand writes the arguments and flags of a command, and its subcommands.
func writeCommand(out *strings.Builder, node *kong.Node) {
	for _, argument := range node.Positional {
		fmt.Fprintf(out, ".TP\n.I %s\n%s\n", roff(argument.Summary()), roff(orName(argument.Help, argument.Name)))
	}
	writeFlags(out, node)
	for _, child := range commandsOf(node) {
		fmt.Fprintf(out, ".SS %s\n%s\n", roff(child.FullPath()), roff(orName(child.Help, child.Name)))
		writeCommand(out, child)
	}
}

// orName returns a help text, or a name instead of an empty one.
func orName(help, name string) string {
	if help == "" {
		return name
	}
	return help
}

// writeFlags writes the flags of a node.
func writeFlags(out *strings.Builder, node *kong.Node) {
	for _, flag := range node.Flags {
		if flag.Hidden {
			continue
		}
		name := "--" + flag.Name
		if flag.Short != 0 {
			name = "-" + string(flag.Short) + ", " + name
		}
		fmt.Fprintf(out, ".TP\n.B %s\n", roff(name))
		if !flag.IsBool() && !flag.IsCounter() {
			fmt.Fprintf(out, ".I %s\n", roff(strings.Trim(flag.FormatPlaceHolder(), `"`)))
		}
		out.WriteString(roff(orName(flag.Help, flag.Name)))
		if len(flag.Envs) > 0 {
			out.WriteString(" Environment: " + roff(strings.Join(flag.Envs, ", ")) + ".")
		}
		out.WriteString("\n")
	}
}

// roff returns text for a line of a page: without characters that groff takes for commands.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ", "…", "...", "–", `\-`).Replace(strings.TrimSpace(text))
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

package main

import "github.com/alecthomas/kong"

// shortHelp prints the help of the program: its commands by group, then the global flags; or of a command: its flags
// and commands, and how to see the global flags. The manual pages have the rest of the texts about global flags.
func shortHelp(options kong.HelpOptions, ctx *kong.Context) error {
	options.FlagsLast, options.NoExpandSubcommands, options.Compact = true, true, true
	selected := ctx.Selected()
	if selected == nil {
		ctx.Model.HelpFlag.Group = &kong.Group{Key: "Global flags:", Title: "Global flags:"}
		options.ValueFormatter = func(value *kong.Value) string { return firstSentence(value.Help) }
		return kong.DefaultHelpPrinter(options, ctx)
	}
	for _, flag := range ctx.Model.Flags {
		flag.Hidden = true
	}
	for node := selected; node != nil; node = node.Parent {
		node.Group = nil // that of the program's commands
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	_, err := ctx.Stdout.Write([]byte("\n`berth --help` shows the global flags, such as -o json, -c and --os-cloud.\n"))
	return err
}

// Command berth is the one binary of Berth: the services, the agent and the client commands.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/systemd"
)

// grammar is the command line. The client commands are in package cli; the commands below start services.
type grammar struct {
	cli.Globals
	cli.Commands

	Version kong.VersionFlag `help:"Print the version."`

	Demo      demoCmd      `cmd:"" help:"Run a guided tour of a small cloud on this machine, in a temporary directory."`
	Up        upCmd        `cmd:"" help:"Run the whole cloud (placement, compute, network, image and agent) as a daemon with durable state."`
	Placement placementCmd `cmd:"" help:"Run placement alone."`
	Compute   computeCmd   `cmd:"" help:"Run compute alone."`
	Network   networkCmd   `cmd:"" help:"Run the network service alone; list networks."`
	Image     imageCmd     `cmd:"" help:"Run the image service alone; upload, list and delete images."`
	Agent     agentCmd     `cmd:"" help:"Run the agent of this host alone, or show what it would do."`
	Preflight preflightCmd `cmd:"" help:"Show what prevents [filter_scheduler] pci_in_placement = true."`

	User       userCmd       `cmd:"" help:"Add, list, change and remove the accounts of http_basic, in the files of this machine."`
	Options    optionsCmd    `cmd:"" help:"Print a configuration file with every option as a comment, with its default and its description."`
	Completion completionCmd `cmd:"" help:"Print the completion of commands and flags for a shell."`
	Manual     manualCmd     `cmd:"" hidden:"" help:"Write the manual pages into a directory."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with its arguments and outputs as parameters. It returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	g := grammar{Commands: cli.NewCommands()}
	g.Stdout, g.Stderr = stdout, stderr
	status, exited := 0, false
	parser, err := kong.New(&g, kong.Name("berth"), kong.UsageOnError(), kong.Writers(stdout, stderr),
		kong.Description("A Go implementation of the OpenStack Placement API, with a compute service and a host agent for "+
			"PCI devices."),
		kong.Vars{"version": version()}, kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) { status, exited = code, true }))
	if err != nil {
		fmt.Fprintln(stderr, "berth:", err)
		return statusFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if args[0] == "help" {
		args = append(args[1:], "--help")
	}
	parsed, err := parser.Parse(args)
	if exited { // --help has been printed
		return status
	}
	if err != nil {
		fmt.Fprintf(stderr, "berth: %s\n", usageSentence(err))
		return statusUsage
	}
	ctx, stop := untilSignal()
	defer stop()
	g.Interrupt = ctx
	parsed.BindTo(ctx, (*context.Context)(nil))
	manager, err := systemd.Find()
	if err != nil {
		fmt.Fprintln(stderr, "berth:", sentence(err))
		return statusFailed
	}
	parsed.Bind(&g.Globals, streams{stdout, stderr, manager}, parser.Model)
	if err := parsed.Run(); err != nil {
		for _, one := range joined(err) {
			one = withInterruption(ctx, one)
			fmt.Fprintln(stderr, "berth:", sentence(one)+g.hint(parsed.Command(), one))
		}
		return exitStatus(ctx, err)
	}
	return 0
}

// hint returns advice for an error of a command: a service is not reachable at its URL, or refuses the account of an
// agent.
func (g *grammar) hint(command string, err error) string {
	text, answer := sentence(err), rest.StatusOf(err)
	if strings.HasPrefix(command, "agent") && answer != nil &&
		(answer.Code == http.StatusUnauthorized || answer.Code == http.StatusForbidden) {
		return fmt.Sprintf("; this is the answer to %s %s: correct the account of [%s], which needs the role service",
			answer.Method, answer.Path, sectionOf(answer.Path))
	}
	for _, at := range []struct{ url, flag, env string }{
		{cmp.Or(g.ComputeURL, cli.DefaultComputeURL), "--compute-url", "BERTH_COMPUTE_URL"},
		{cmp.Or(g.PlacementURL, cli.DefaultPlacementURL), "--placement-url", "BERTH_PLACEMENT_URL"}} {
		if strings.HasPrefix(text, strings.TrimSuffix(at.url, "/")+" does not answer") {
			return fmt.Sprintf("; start it, or set its URL with %s (or %s)", at.flag, at.env)
		}
	}
	if strings.Contains(text, "Client sent an HTTP request to an HTTPS server") {
		return "; the service at this URL uses TLS: write https:// in --placement-url or --compute-url, or in " +
			"endpoint_override"
	}
	// A missing route; for a missing object the text differs.
	if answer != nil && answer.Code == http.StatusNotFound && (text == "The resource could not be found." ||
		strings.HasPrefix(text, "there is nothing at")) {
		return fmt.Sprintf("; the service at this URL has no %s: are --placement-url and --compute-url swapped?", answer.Path)
	}
	return ""
}

// sectionOf returns the section of the options with which an agent calls the service that has a path.
func sectionOf(path string) string {
	for _, at := range []struct{ prefix, section string }{{"/v2.0/", "neutron"}, {"/berth/v1/network-agents/", "neutron"},
		{"/v2/", "glance"}, {"/berth/v1/explain", "placement"}, {"/v2.1/", "compute"}} {
		if strings.HasPrefix(path, at.prefix) {
			return at.section
		}
	}
	path, _, _ = strings.Cut(path, "?")
	switch {
	case strings.HasPrefix(path, "/berth/v1/hosts/") && strings.HasSuffix(path, "/ports"):
		return "neutron"
	case strings.HasPrefix(path, "/berth/v1/"):
		return "compute"
	}
	return "placement"
}

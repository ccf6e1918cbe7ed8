// Command berth is the one binary of Berth: the services, the agent and the client commands.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/systemd"
)

// grammar is the command line. The client commands are in package cli; the commands below start services.
type grammar struct {
	cli.Globals `group:"Global flags:"`
	cli.Commands

	VersionFlag kong.VersionFlag `name:"version" hidden:"" help:"Print the version."`

	Network networkCmd `cmd:"" group:"Networks:" help:"Create, list, show, change and delete networks; run the network service alone."`
	Image   imageCmd   `cmd:"" group:"Servers, flavors and images:" help:"Upload, download, list and share images; run the image service alone."`

	Audit auditCmd `cmd:"" group:"Hosts, devices and resources:" help:"Show differences between compute, Placement and the network service, now or periodically; with --heal, correct Placement."`

	Up        upCmd        `cmd:"" group:"Services:" help:"Run the whole cloud (placement, compute, network, image and agent) as a daemon with durable state."`
	Console   consoleCmd   `cmd:"" group:"Services:" help:"Serve web pages that show the hosts, devices, servers and events of a cloud, to users who sign in with their accounts."`
	Placement placementCmd `cmd:"" group:"Services:" help:"Run placement alone."`
	Compute   computeCmd   `cmd:"" group:"Services:" help:"Run compute alone."`
	Agent     agentCmd     `cmd:"" group:"Services:" help:"Run the agent of this host alone, or show what it would do."`
	Preflight preflightCmd `cmd:"" group:"Services:" help:"Show what prevents [filter_scheduler] pci_in_placement = true."`
	stateCommands
	Options optionsCmd `cmd:"" group:"Services:" help:"Print a configuration file with every option as a comment, with its default and its description."`

	Init initCmd `cmd:"" group:"Services:" help:"Make a cloud on this machine: accounts, configuration, services, flavors, a network with NAT and DHCP, a key pair and clouds.yaml. Or join this machine to one."`
	User userCmd `cmd:"" group:"Services:" help:"Add, list, change and remove the accounts of http_basic, in the files of this machine."`

	Demo       demoCmd       `cmd:"" group:"This program:" help:"Run a guided tour of a small cloud on this machine, in a temporary directory."`
	Completion completionCmd `cmd:"" group:"This program:" help:"Print the completion of commands and flags for a shell: source <(berth completion bash), or zsh; berth completion fish | source."`
	Manual     manualCmd     `cmd:"" group:"This program:" hidden:"" help:"Write the manual pages into a directory."`
	Version    versionCmd    `cmd:"" group:"This program:" help:"Print the version."`
}

// stateCommands are the commands on the durable state of a machine.
type stateCommands struct {
	Backup  backupCmd  `cmd:"" group:"Services:" help:"Save the state of the services and the agent of this machine while they run."`
	Restore restoreCmd `cmd:"" group:"Services:" help:"Put a backup back while the services are stopped, or show what that would do."`
	Upgrade upgradeCmd `cmd:"" group:"Services:" help:"Check whether this program can continue with the state of this machine."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with its arguments and outputs as parameters. It returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	g := grammar{Commands: cli.NewCommands(), Image: imageCmd{ImageCommands: cli.NewImageCommands()}}
	g.Stdout, g.Stderr = stdout, stderr
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if args[0] == "help" {
		args = append(args[1:], "--help")
	}
	status, exited := 0, false
	parser, err := kong.New(&g, kong.Name("berth"), kong.UsageOnError(), kong.Writers(stdout, stderr),
		kong.Description("A Go implementation of the OpenStack Placement API, with a compute service and a host agent for "+
			"PCI devices."),
		kong.Vars{"version": version()}, kong.Help(shortHelp), namedCommand(reflect.TypeFor[grammar](), args),
		kong.Exit(func(code int) { status, exited = code, true }))
	if err != nil {
		fmt.Fprintln(stderr, "berth:", err)
		return statusFailed
	}
	parsed, err := parser.Parse(joinNegative(args))
	if exited { // --help has been printed
		return status
	}
	if err != nil {
		fmt.Fprintf(stderr, "berth: %s\n", usageSentence(err))
		return statusUsage
	}
	if lacksVerb(parsed.Command(), args) {
		return run(append(args, "--help"), stdout, stderr)
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
	parsed.Bind(&g.Globals, streams{stdout, stderr, manager, g.Wide}, parser.Model)
	if err := parsed.Run(); err != nil {
		for _, one := range joined(err) {
			one = withInterruption(ctx, one)
			fmt.Fprintln(stderr, "berth:", sentence(one)+hint(&g.Globals, parsed.Command(), one))
		}
		return exitStatus(ctx, err)
	}
	return 0
}

// lacksVerb reports whether the arguments end with a command that has verbs for people, without one of them. Its help
// is printed then: people who look for the verbs do not expect that a service starts and makes a data directory.
func lacksVerb(command string, args []string) bool {
	name, isRun := strings.CutSuffix(command, " run")
	return isRun && slices.Contains([]string{"agent", "image", "network"}, name) && slices.Index(args, name) == len(args)-1
}

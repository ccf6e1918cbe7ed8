// Command berth is all of Berth in one binary: the services, the agent, and the commands for people.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/fault"
)

// grammar is the command line. Commands for people live in cli; those below start houses.
type grammar struct {
	cli.Globals
	cli.Commands

	Version kong.VersionFlag `help:"Print which berth this is."`

	Demo      demoCmd      `cmd:"" help:"Take the tour: a small cloud on this machine, in a temporary directory."`
	Up        upCmd        `cmd:"" help:"Run the whole cloud (placement, compute and agent) as a daemon with durable state."`
	Placement placementCmd `cmd:"" help:"Run placement alone."`
	Compute   computeCmd   `cmd:"" help:"Run compute alone."`
	Agent     agentCmd     `cmd:"" help:"Run the agent of this host alone, or see what it would do."`
	Preflight preflightCmd `cmd:"" help:"Say what stands between the cloud and [filter_scheduler] pci_in_placement = true."`
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit statuses: what was asked failed, and the command line makes no sense.
const (
	statusFailed = 1
	statusUsage  = 2
)

// run is main with its world as arguments.
func run(args []string, stdout, stderr io.Writer) int {
	var g grammar
	g.Stdout, g.Stderr = stdout, stderr
	status, exited := 0, false
	parser, err := kong.New(&g, kong.Name("berth"), kong.UsageOnError(), kong.Writers(stdout, stderr),
		kong.Description("OpenStack Placement done again, exact and fast, with the agent and the scheduler that give servers real devices."),
		kong.Vars{"version": version()}, kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Exit(func(code int) { status, exited = code, true }))
	if err != nil {
		fmt.Fprintln(stderr, "berth:", err)
		return statusFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	if exited { // --help has been printed
		return status
	}
	if err != nil {
		fmt.Fprintf(stderr, "berth: %s; `berth --help` shows the commands\n", err)
		return statusUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed.BindTo(ctx, (*context.Context)(nil))
	parsed.Bind(&g.Globals, streams{stdout, stderr})
	if err := parsed.Run(); err != nil {
		for _, one := range joined(err) {
			fmt.Fprintln(stderr, "berth:", sentence(one)+g.hint(one))
		}
		return statusFailed
	}
	return 0
}

// hint says what to do when a service is not where it is asked.
func (g *grammar) hint(err error) string {
	text := sentence(err)
	for _, at := range []struct{ url, flag, env string }{{g.ComputeURL, "--compute-url", "BERTH_COMPUTE_URL"}, {g.PlacementURL, "--placement-url", "BERTH_PLACEMENT_URL"}} {
		if strings.HasPrefix(text, strings.TrimSuffix(at.url, "/")+" does not answer") {
			return fmt.Sprintf("; start it, or say with %s (or %s) where it is", at.flag, at.env)
		}
	}
	said := rest.StatusOf(err) // no such route at all; what lacks an object only names it
	if said != nil && said.Code == http.StatusNotFound && (text == "The resource could not be found." || strings.HasPrefix(text, "there is nothing at")) {
		return fmt.Sprintf("; the service there has no %s: are --placement-url and --compute-url the wrong way round?", said.Path)
	}
	return ""
}

// version is the module's version and the revision that this binary was built from, as far as the build told them.
func version() string {
	text := "berth"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return text
	}
	text += " " + info.Main.Version
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			text += " " + setting.Value
		}
	}
	return text + " " + info.GoVersion
}

// streams are where a daemon writes: its tale and its log.
type streams struct{ out, log io.Writer }

// joined returns the errors that errors.Join has put together, or err alone. A service that ends can fail twice: a
// request was cut off, and its database was lost.
func joined(err error) []error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range several.Unwrap() {
			all = append(all, joined(one)...)
		}
		return all
	}
	return []error{err}
}

// sentence is what a person reads of an error: a fault's own words, without the places it passed through.
func sentence(err error) string {
	if fault.Is(err, fault.Internal) {
		return err.Error()
	}
	return fault.TextOf(err)
}

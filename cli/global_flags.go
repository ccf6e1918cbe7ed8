// Package cli implements the client commands: it calls the APIs and prints tables, or JSON for programs.
//
// It imports only API clients and value types, so each command works with any server that the URLs name, and
// `provider` and `candidates` also with OpenStack's own Placement.
package cli

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
)

// Globals are the flags of every client command.
type Globals struct {
	PlacementURL string `help:"URL of the Placement API. Default: ${default}." default:"http://127.0.0.1:8778" env:"BERTH_PLACEMENT_URL" placeholder:"URL"`
	ComputeURL   string `help:"URL of the Compute API, without /v2.1. Default: ${default}." default:"http://127.0.0.1:8774" env:"BERTH_COMPUTE_URL" placeholder:"URL"`
	Token        string `help:"X-Auth-Token; with noauth2, USER[:PROJECT]." default:"admin" env:"BERTH_TOKEN"`
	Output       string `short:"o" help:"Output format: table or json." enum:"table,json" default:"table"`

	Stdout io.Writer    `kong:"-"` // for results; nil: standard output
	Stderr io.Writer    `kong:"-"` // for messages; nil: standard error
	HTTP   *http.Client `kong:"-"` // nil: a client with a timeout of one minute

	Interrupt context.Context `kong:"-"` // ends when the user interrupts the command; nil: never
}

func (g *Globals) placement() *placement.Client {
	return placement.NewClient(g.PlacementURL, g.HTTP, g.Token)
}

func (g *Globals) compute() *compute.Client {
	return compute.NewClient(g.ComputeURL, g.HTTP, g.Token)
}

func (g *Globals) hosts() host.Client {
	return host.Client{REST: &rest.Client{Base: strings.TrimSuffix(g.ComputeURL, "/"), HTTP: g.HTTP,
		Headers: map[string]string{"X-Auth-Token": g.Token}}}
}

func (g *Globals) stdout() io.Writer {
	if g.Stdout != nil {
		return g.Stdout
	}
	return os.Stdout
}

func (g *Globals) stderr() io.Writer {
	if g.Stderr != nil {
		return g.Stderr
	}
	return os.Stderr
}

// commandTime is the time limit of one command.
const commandTime = 2 * time.Minute

// context returns the context of one command: it ends after commandTime, or when the user interrupts the command.
func (g *Globals) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(g.untilInterrupted(), commandTime)
}

// untilInterrupted returns a context without a time limit, for commands that have their own.
func (g *Globals) untilInterrupted() context.Context {
	if g.Interrupt == nil {
		return context.Background()
	}
	return g.Interrupt
}

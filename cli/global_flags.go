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
	CAFile       string `help:"CAs that may issue the services' certificates, in PEM. Default: those of this machine." env:"BERTH_CA_FILE,OS_CACERT" placeholder:"FILE"`
	CertFile     string `help:"Client certificate for services that require one, in PEM." env:"BERTH_CERT_FILE,OS_CERT" placeholder:"FILE"`
	KeyFile      string `help:"Key of --cert-file. Default: in the same file." env:"BERTH_KEY_FILE,OS_KEY" placeholder:"FILE"`
	Output       string `short:"o" help:"Output format: table or json." enum:"table,json" default:"table"`

	Stdout io.Writer    `kong:"-"` // for results; nil: standard output
	Stderr io.Writer    `kong:"-"` // for messages; nil: standard error
	HTTP   *http.Client `kong:"-"` // nil: a client with the certificates of the flags and a timeout of one minute

	Interrupt context.Context `kong:"-"` // ends when the user interrupts the command; nil: never
}

func (g *Globals) placement() *placement.Client {
	c := placement.NewClient(g.PlacementURL, g.client(), g.Token)
	c.REST.TLSNames = g.TLSFiles().Names
	return c
}

func (g *Globals) compute() *compute.Client {
	c := compute.NewClient(g.ComputeURL, g.client(), g.Token)
	c.REST.TLSNames = g.TLSFiles().Names
	return c
}

func (g *Globals) hosts() host.Client {
	return host.Client{REST: &rest.Client{Base: strings.TrimSuffix(g.ComputeURL, "/"), HTTP: g.client(),
		Headers: map[string]string{"X-Auth-Token": g.Token}, TLSNames: g.TLSFiles().Names}}
}

// TLSFiles returns the files of --ca-file, --cert-file and --key-file.
func (g *Globals) TLSFiles() rest.TLSFiles {
	return rest.TLSFiles{CAFile: g.CAFile, CertFile: g.CertFile, KeyFile: g.KeyFile, Names: rest.TLSOptionNames{
		CA: "--ca-file (or BERTH_CA_FILE)", Cert: "--cert-file (or BERTH_CERT_FILE)",
		Key: "--key-file (or BERTH_KEY_FILE)"}}
}

// client returns HTTP, which it creates at the first call. If a file of TLSFiles cannot be used, each request of the
// client fails with the reason.
func (g *Globals) client() *http.Client {
	if g.HTTP == nil {
		g.HTTP = &http.Client{Timeout: requestTime}
		if transport, err := g.TLSFiles().Transport(); err != nil {
			g.HTTP.Transport = failing{err}
		} else {
			g.HTTP.Transport = transport
		}
	}
	return g.HTTP
}

// requestTime is the time limit of one request.
const requestTime = time.Minute

// failing is a transport that returns an error.
type failing struct{ err error }

// RoundTrip implements http.RoundTripper.
func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

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

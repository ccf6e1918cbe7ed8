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
	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// Globals are the flags of every client command.
type Globals struct {
	URL          string `help:"URL that serves all APIs, as berth up --listen does, such as http://127.0.0.1:8770." env:"BERTH_URL" placeholder:"URL"`
	PlacementURL string `help:"URL of the Placement API. Default: that of the account's cloud, or http://127.0.0.1:8778." env:"BERTH_PLACEMENT_URL" placeholder:"URL"`
	ComputeURL   string `help:"URL of the Compute API. Default: that of the account's cloud, or http://127.0.0.1:8774." env:"BERTH_COMPUTE_URL" placeholder:"URL"`
	NetworkURL   string `help:"URL of the Networking API. Default: that of the account's cloud, or http://127.0.0.1:9696." env:"BERTH_NETWORK_URL" placeholder:"URL"`
	ImageURL     string `help:"URL of the Image API. Default: that of the account's cloud, or http://127.0.0.1:9292." env:"BERTH_IMAGE_URL" placeholder:"URL"`
	Token        string `help:"X-Auth-Token; with noauth2, USER[:PROJECT]. Default: the account of --os-cloud or of OS_USERNAME, OS_PASSWORD and the other OS_ variables; without them admin." env:"BERTH_TOKEN"`
	OSCloud      string `help:"Name of the cloud in clouds.yaml." name:"os-cloud" env:"OS_CLOUD" placeholder:"NAME"`
	CAFile       string `help:"CAs that may issue the services' certificates, in PEM. Default: those of the account's cloud, or of this machine." env:"BERTH_CA_FILE,OS_CACERT" placeholder:"FILE"`
	CertFile     string `help:"Client certificate for services that require one, in PEM." env:"BERTH_CERT_FILE,OS_CERT" placeholder:"FILE"`
	KeyFile      string `help:"Key of --cert-file. Default: in the same file." env:"BERTH_KEY_FILE,OS_KEY" placeholder:"FILE"`
	OutputFlags

	Stdin  io.Reader    `kong:"-"` // nil: standard input
	Stdout io.Writer    `kong:"-"` // for results; nil: standard output
	Stderr io.Writer    `kong:"-"` // for messages; nil: standard error
	HTTP   *http.Client `kong:"-"` // nil: a client with the certificates of the account and a timeout of one minute

	Interrupt context.Context `kong:"-"` // ends when the user interrupts the command; nil: never

	signed *commandAccount // of the first request; nil: not determined yet
}

// AfterApply adds the scheme to URLs that have none, and refuses other schemes than those of HTTP.
func (g *Globals) AfterApply() error {
	for _, url := range []*string{&g.URL, &g.PlacementURL, &g.ComputeURL, &g.NetworkURL, &g.ImageURL} {
		*url = WithScheme(*url)
		if scheme, _, has := strings.Cut(*url, "://"); has && scheme != "http" && scheme != "https" {
			return fault.New(fault.Invalid, "the URL %q is not valid: write http://HOST:PORT or https://HOST:PORT", *url)
		}
	}
	return nil
}

// account returns the account of the command, which it determines at the first call.
func (g *Globals) account() *commandAccount {
	if g.signed == nil {
		g.signed = newCommandAccount(g.Token, g.OSCloud, addressed(g), g.TLSFiles())
		g.signed.url = g.URL
	}
	return g.signed
}

func (g *Globals) placement() *placement.Client {
	client := placement.NewClient("", g.HTTP, "")
	g.account().connect(client.REST, placement.CatalogType, g.PlacementURL, DefaultPlacementURL)
	return client
}

func (g *Globals) compute() *compute.Client {
	client := compute.NewClient("", g.HTTP, "")
	g.account().connect(client.REST, compute.CatalogType, g.ComputeURL, DefaultComputeURL)
	return client
}

func (g *Globals) networks() *network.Client {
	client := network.NewClient("", g.HTTP, "")
	g.account().connect(client.REST, network.CatalogType, g.NetworkURL, DefaultNetworkURL)
	return client
}

func (g *Globals) images() image.Catalogue {
	client := &rest.Client{HTTP: g.HTTP, Headers: map[string]string{}}
	g.account().connect(client, image.CatalogType, g.ImageURL, DefaultImageURL)
	return image.Catalogue{REST: client}
}

// imageData returns a client for the data of images, which takes any time.
func (g *Globals) imageData() image.Catalogue {
	c := g.images()
	untimed := *c.REST.HTTP
	untimed.Timeout = 0
	c.REST.HTTP = &untimed
	return c
}

func (g *Globals) hosts() host.Client {
	client := host.Client{REST: &rest.Client{HTTP: g.HTTP, Headers: map[string]string{}}}
	g.account().connect(client.REST, compute.CatalogType, g.ComputeURL, DefaultComputeURL)
	return client
}

// TLSFiles returns the files of --ca-file, --cert-file and --key-file.
func (g *Globals) TLSFiles() rest.TLSFiles {
	return rest.TLSFiles{CAFile: g.CAFile, CertFile: g.CertFile, KeyFile: g.KeyFile, Names: rest.TLSOptionNames{
		CA: "--ca-file (or BERTH_CA_FILE)", Cert: "--cert-file (or BERTH_CERT_FILE)",
		Key: "--key-file (or BERTH_KEY_FILE)"}}
}

func (g *Globals) stdin() io.Reader {
	if g.Stdin != nil {
		return g.Stdin
	}
	return os.Stdin
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

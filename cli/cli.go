// Package cli is the command line for people: it asks the services over their contracts and prints tables, or JSON for programs.
//
// It imports contracts and words only, so each command works against any machine that the URLs name,
// and `provider` and `candidates` also against OpenStack's own Placement.
package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
)

// Commands are the verbs for people. Kong fills the fields; the tags are the help.
type Commands struct {
	Device     DeviceCmd     `cmd:"" help:"See the devices of all hosts."`
	Host       HostCmd       `cmd:"" help:"See hosts, and what their agents say is wrong on them."`
	Provider   ProviderCmd   `cmd:"" help:"See resource providers, their trees and usages."`
	Server     ServerCmd     `cmd:"" help:"Create, see, change, move and delete servers; ask why one is where it is, or nowhere."`
	Flavor     FlavorCmd     `cmd:"" help:"Create and see flavors."`
	Candidates CandidatesCmd `cmd:"" help:"Ask Placement for allocation candidates, and why there are none."`
}

// Globals are the flags of every client command.
type Globals struct {
	PlacementURL string `help:"Where the Placement API is. Default: ${default}." default:"http://127.0.0.1:8778" env:"BERTH_PLACEMENT_URL" placeholder:"URL"`
	ComputeURL   string `help:"Where the Compute API is (without /v2.1). Default: ${default}." default:"http://127.0.0.1:8774" env:"BERTH_COMPUTE_URL" placeholder:"URL"`
	Token        string `help:"X-Auth-Token; with noauth2, USER[:PROJECT]." default:"admin" env:"BERTH_TOKEN"`
	Output       string `short:"o" help:"table for people, json for programs." enum:"table,json" default:"table"`

	Stdout io.Writer    `kong:"-"` // where answers go; nil means standard output
	Stderr io.Writer    `kong:"-"` // where remarks go; nil means standard error
	HTTP   *http.Client `kong:"-"` // nil means a client with a timeout of one minute
}

func (g *Globals) placement() *placement.Client {
	return placement.NewClient(g.PlacementURL, g.HTTP, g.Token)
}

func (g *Globals) compute() *compute.Client {
	return compute.NewClient(g.ComputeURL, g.HTTP, g.Token)
}

func (g *Globals) hosts() host.Client {
	return host.Client{REST: &rest.Client{Base: strings.TrimSuffix(g.ComputeURL, "/"), HTTP: g.HTTP, Headers: map[string]string{"X-Auth-Token": g.Token}}}
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

// commandTime is how long one command may take in all.
const commandTime = 2 * time.Minute

func (g *Globals) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), commandTime)
}

// print writes value as JSON, or the rows as a table.
func (g *Globals) print(value any, header []string, rows [][]string) error {
	if g.Output == "json" {
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return fault.Wrap(fault.Internal, "cli.print", err)
		}
		_, err = g.stdout().Write(append(data, '\n'))
		return err
	}
	return PrintTable(g.stdout(), header, rows)
}

// PrintTable draws rows under a header, without a frame, columns two blanks apart.
func PrintTable(w io.Writer, header []string, rows [][]string) error {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.Options{}
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	t.AppendHeader(cells(header))
	for _, row := range rows {
		t.AppendRow(cells(row))
	}
	_, err := io.WriteString(w, t.Render()+"\n")
	return err
}

func cells(texts []string) table.Row {
	row := make(table.Row, len(texts))
	for i, text := range texts {
		row[i] = provider.Printable(text)
	}
	return row
}

// pairs turns names and values into the two-column table that `show` prints.
func pairs(kv ...string) [][]string { return slices.Collect(slices.Chunk(kv, 2)) }

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func strs[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return out
}

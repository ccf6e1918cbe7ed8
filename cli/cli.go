// Package cli implements the client commands: it calls the APIs and prints tables, or JSON for programs.
//
// It imports only API clients and value types, so each command works with any server that the URLs name, and
// `provider` and `candidates` also with OpenStack's own Placement.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
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

// Globals are the flags of every client command.
type Globals struct {
	PlacementURL string `help:"URL of the Placement API. Default: ${default}." default:"http://127.0.0.1:8778" env:"BERTH_PLACEMENT_URL" placeholder:"URL"`
	ComputeURL   string `help:"URL of the Compute API, without /v2.1. Default: ${default}." default:"http://127.0.0.1:8774" env:"BERTH_COMPUTE_URL" placeholder:"URL"`
	Token        string `help:"X-Auth-Token; with noauth2, USER[:PROJECT]." default:"admin" env:"BERTH_TOKEN"`
	Output       string `short:"o" help:"Output format: table or json." enum:"table,json" default:"table"`

	Stdout io.Writer    `kong:"-"` // for results; nil: standard output
	Stderr io.Writer    `kong:"-"` // for messages; nil: standard error
	HTTP   *http.Client `kong:"-"` // nil: a client with a timeout of one minute
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

// PrintTable writes rows under a header, without a frame; columns are two spaces apart.
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

// pairs turns names and values into the rows of the two-column table that `show` prints.
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

// queryOf parses key=value arguments; each may also be a query string with "&".
func queryOf(args []string) (url.Values, error) {
	query := url.Values{}
	for _, arg := range args {
		for part := range strings.SplitSeq(arg, "&") {
			key, value, ok := strings.Cut(part, "=")
			if !ok || key == "" {
				return nil, fault.New(fault.Invalid, "", "%q is not a query parameter; write it as key=value, for example "+
					"resources=VCPU:1", part)
			}
			query.Add(key, value)
		}
	}
	return query, nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

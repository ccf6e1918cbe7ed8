package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/fault"
)

// ServerWhyCmd explains the decisions about a server.
type ServerWhyCmd struct {
	Server    string   `arg:"" help:"Name or id; a deleted server only by id."`
	AliasFile []string `help:"Where compute is Nova: nova.conf with the aliases of PCI devices ([pci] alias). May be repeated." placeholder:"FILE" sep:"none"`
	LongOutput
}

// Run prints the decisions.
func (c *ServerWhyCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	if besideNova(ctx, g) {
		return whyOfNova(ctx, g, c.Server, c.AliasFile)
	}
	why, err := findWhy(ctx, g.compute(), c.Server)
	if err != nil {
		return err
	}
	if g.Output == "json" {
		return g.print(why, nil, nil)
	}
	var providers names
	if why.Choice != nil && !c.Long {
		providers = g.providerNames(ctx, url.Values{"in_tree": {why.Choice.Root}})
	}
	return PrintWhy(g.stdout(), why, providers, c.Long)
}

// findWhy looks the server up by id first, because a deleted server is found only by id.
func findWhy(ctx context.Context, client *compute.Client, name string) (compute.Why, error) {
	why, err := client.Why(ctx, name)
	if !fault.Is(err, fault.NotFound) {
		return why, err
	}
	s, err := client.Server(ctx, name)
	if err != nil {
		return compute.Why{}, err
	}
	return client.Why(ctx, s.ID)
}

// PrintWhy writes the decisions: the request groups, the choice, the devices and the history. Providers are shown by
// name, from providers by id. Equal groups and devices of one alias are one line; with long each has its own, with its
// id.
func PrintWhy(w io.Writer, why compute.Why, providers map[string]string, long bool) error {
	var b strings.Builder
	status := why.Status
	if why.Task != "" {
		status += "/" + why.Task
	}
	fmt.Fprintf(&b, "%s (%s) is %s: flavor %s", why.Name, why.ID, status, why.Flavor)
	if why.Host != "" {
		fmt.Fprintf(&b, ", host %s", why.Host)
	}
	b.WriteString("\n")
	printWords(&b, why)
	if long {
		printGroups(&b, why, names(providers))
	} else {
		printGrouped(&b, why, names(providers))
	}
	for _, text := range condition.Texts(why.HostConditions) {
		fmt.Fprintf(&b, "condition of %s: %s\n", why.Host, text)
	}
	if m := why.Move; m != nil {
		migration := "it"
		if long {
			migration = "migration " + m.Migration
		}
		fmt.Fprintf(&b, "%s in progress: %s holds resources on %s: %s\n", m.Kind, migration, m.Source.Host,
			devicesText(m.Source.Devices))
	}
	for _, l := range why.Leftovers {
		fmt.Fprintf(&b, "left on %s: %s holds %s until the agent there reports that the guest is removed\n", l.Host,
			l.Consumer, devicesText(l.Devices))
	}
	for _, f := range why.FilterFailures {
		fmt.Fprintf(&b, "rejected by %s: %d hosts (%s): %s", f.Filter, f.Count, strings.Join(f.Hosts, ", "), f.Reason)
		if f.Nearest != "" {
			fmt.Fprintf(&b, "; nearest miss: %s", f.Nearest)
		}
		b.WriteString("\n")
	}
	printSearch(&b, why.Search)
	if why.Fault != "" {
		fmt.Fprintf(&b, "fault: %s\n", why.Fault)
	}
	if why.Details != "" {
		fmt.Fprintf(&b, "  %s\n", why.Details)
	}
	if len(why.History) > 0 {
		b.WriteString("history:\n")
	} else {
		b.WriteString("The choice of the host and the history are shown to administrators only.\n")
	}
	named := replacer(providers)
	for _, m := range why.History {
		fmt.Fprintf(&b, "  %s  %s", m.At.Local().Format("2006-01-02 15:04:05.000"), named.Replace(m.Text))
		if m.Times > 1 {
			fmt.Fprintf(&b, " (%d times)", m.Times)
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printSearch writes the funnel of the last search, as recorded, and the nearest misses.
func printSearch(b *strings.Builder, s *compute.WhySearch) {
	if s == nil {
		return
	}
	fmt.Fprintf(b, "hosts left after each clause, at %s:\n", s.At.Local().Format("2006-01-02 15:04:05"))
	before := 0
	for _, row := range s.Funnel {
		b.WriteString(funnelLine(before, row.Left, row.Clause, row.Removed))
		before = row.Left
	}
	if len(s.Nearest) > 0 {
		b.WriteString("nearest misses:\n")
	}
	for _, m := range s.Nearest {
		for _, d := range m.Deficits {
			fmt.Fprintf(b, "  %s: %s\n", m.Host, d.Text)
		}
	}
}

// printWords writes the image that the server was created from, and the sources of its properties.
func printWords(b *strings.Builder, why compute.Why) {
	if i := why.Image; i != nil {
		fmt.Fprintf(b, "made from image %s", i.ID)
		if i.Name != "" {
			fmt.Fprintf(b, " (%q)", i.Name)
		}
		b.WriteString("\n")
	}
	for _, c := range why.Constraints {
		fmt.Fprintf(b, "%s is %q, from %s\n", c.Key, c.Value, strings.Join(c.Sources, " and "))
	}
}

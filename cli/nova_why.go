package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/headroom"
	"github.com/openberth/berth/fleet/read"
	"github.com/openberth/berth/hosttree"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// novaWhy is what is known of the placement of a server of Nova.
type novaWhy struct {
	ID      string                   `json:"id"`
	Name    string                   `json:"name"`
	Status  string                   `json:"status"`
	Host    string                   `json:"host,omitempty"`
	Fault   string                   `json:"fault,omitempty"`
	Actions []compute.InstanceAction `json:"actions"`
	Query   string                   `json:"query"`                     // its request to Placement, for candidates
	LeftOut string                   `json:"left_out,omitempty"`        // what the query does not request, and why
	Now     *placement.Explanation   `json:"now,omitempty"`             // why there are no candidates now
	Fits    int                      `json:"candidates"`                // that there are now, at most maxCandidates
	Own     *headroom.Explanation    `json:"own_explanation,omitempty"` // where Placement does not explain
	NoWhy   string                   `json:"no_explanation,omitempty"`
}

// maxCandidates is how many candidates are requested to see whether a server would fit now.
const maxCandidates = 10

// whyOfNova prints the fault and the actions that Nova has recorded of a server, and what Placement answers to its
// request now.
func whyOfNova(ctx context.Context, g *Globals, name string, aliasFiles []string) error {
	client := g.compute()
	if _, err := read.Negotiate(ctx, client); err != nil {
		return err
	}
	found, err := client.Server(ctx, name)
	if err != nil {
		return err
	}
	if found, err = client.ServerByID(ctx, found.ID); err != nil { // the list, which finds names, may lack the fault
		return err
	}
	server := read.Server(found)
	why := novaWhy{ID: server.ID, Name: server.Name, Status: server.Status, Host: server.Node, Fault: server.Fault}
	if why.Actions, err = actionsOf(ctx, client, server.ID); err != nil {
		return err
	}
	if err := why.ask(ctx, g, &server, aliasFiles); err != nil {
		return err
	}
	if g.Output == "json" {
		return g.print(why, nil, nil)
	}
	return why.print(ctx, g, client)
}

// actionsOf returns the actions on a server with their events, newest first: no more than ten.
func actionsOf(ctx context.Context, client *compute.Client, server string) ([]compute.InstanceAction, error) {
	list, err := client.InstanceActions(ctx, server)
	if err != nil {
		return nil, err
	}
	list = list[:min(len(list), 10)]
	for i, a := range list {
		if list[i], err = client.InstanceAction(ctx, server, a.Request); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// without adds a part of the request that is left out, and why.
func (w *novaWhy) without(text string) {
	if w.LeftOut != "" {
		text = w.LeftOut + "; " + text
	}
	w.LeftOut = text
}

// ask sends the request of the server to Placement now.
func (w *novaWhy) ask(ctx context.Context, g *Globals, server *fleet.Server, aliasFiles []string) error {
	ask, err := w.request(ctx, g, server, aliasFiles)
	if err != nil {
		return err
	}
	w.Query = placement.AskQuery(ask).Encode()
	ask.Limit = maxCandidates
	got, err := g.placement().Candidates(ctx, ask)
	if fault.Is(err, fault.Invalid) { // Placement has no such class or trait
		w.NoWhy = "Placement refuses the request: " + fault.TextOf(err)
		return nil
	}
	if err != nil {
		return err
	}
	if w.Fits = len(got.List); w.Fits > 0 {
		return nil
	}
	now, err := g.placement().Explain(ctx, ask)
	if err == nil {
		w.Now = &now
	}
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	v, err := readFleet(ctx, g, read.Options{Named: append(headroom.Traits(ask), hosttree.StatusDisabled), Shared: true,
		Without: notOfHeadroom})
	if err != nil {
		w.NoWhy = "this Placement does not explain, and its providers cannot be read: " + err.Error()
		return nil
	}
	own := headroom.Why(v, ask)
	w.Own = &own
	return nil
}

// request returns the request of the server. What is not known is left out.
func (w *novaWhy) request(ctx context.Context, g *Globals, server *fleet.Server, aliasFiles []string) (resource.Ask,
	error) {
	aliases, err := readAliases(aliasFiles)
	if err != nil {
		return resource.Ask{}, err
	}
	ports, err := read.PortRequests(ctx, g.networks(), server.ID)
	if err != nil {
		w.without("its ports, which cannot be read: " + err.Error())
	}
	if server.ImageUnknown != "" { // Nova before 2025.1 shows the id only
		image, err := read.ImageProperties(ctx, g.images(), server.ImageUnknown)
		if server.ImageProperties = image; err != nil {
			w.without("the properties of its image, which cannot be read: " + err.Error())
		}
	}
	ask, left, err := server.Request(ports, aliases, len(aliasFiles) > 0)
	if left != "" {
		w.without(left + "; --alias-file names them")
	}
	ask.RootForbidden = append(ask.RootForbidden, hosttree.StatusDisabled) // as Nova does
	return ask, err
}

// print prints it.
func (w *novaWhy) print(ctx context.Context, g *Globals, client *compute.Client) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s) is %s", provider.Printable(w.Name), w.ID, w.Status)
	if w.Host != "" {
		fmt.Fprintf(&b, " on %s", w.Host)
	}
	b.WriteString("\n")
	if w.Fault != "" {
		fmt.Fprintf(&b, "fault: %s\n", provider.Printable(w.Fault))
	}
	for _, a := range w.Actions {
		fmt.Fprintf(&b, "%s  %s", a.Started, a.Action)
		if a.Message != nil {
			fmt.Fprintf(&b, ": %s", provider.Printable(*a.Message))
		}
		b.WriteString("\n")
		if a.Events == nil {
			continue
		}
		for _, e := range *a.Events {
			result := "in progress"
			if e.Result != nil {
				result = *e.Result
			}
			fmt.Fprintf(&b, "  %s  %s: %s\n", e.Started, e.Event, result)
		}
	}
	fmt.Fprintf(&b, "it requests: %s\n", w.Query)
	if w.LeftOut != "" {
		fmt.Fprintf(&b, "without %s\n", w.LeftOut)
	}
	switch {
	case w.Fits >= maxCandidates:
		fmt.Fprintf(&b, "now Placement has %d candidates or more; Nova's filters may refuse them\n", w.Fits)
	case w.Fits > 0:
		fmt.Fprintf(&b, "now Placement has %d candidates; Nova's filters may refuse them\n", w.Fits)
	default:
		b.WriteString("now Placement has no candidates\n")
	}
	if w.NoWhy != "" {
		fmt.Fprintln(&b, w.NoWhy)
	}
	if w.Own != nil {
		w.printOwn(&b)
	}
	if _, err := fmt.Fprint(g.stdout(), b.String()); err != nil || w.Now == nil {
		return err
	}
	holders := names{}
	for _, id := range holdersOf(*w.Now) {
		if s, err := client.ServerByID(ctx, id); err == nil { // otherwise the id is shown
			holders[id] = s.Name
		}
	}
	return explain(g, *w.Now, holders)
}

// printOwn writes the explanation from the providers, as they were after the request.
func (w *novaWhy) printOwn(b *strings.Builder) {
	fmt.Fprintf(b, "This Placement does not explain; by its providers: %s\n", cmp.Or(provider.Printable(w.Own.Reason),
		"the request has candidates meanwhile"))
	if len(w.Own.Nearest) > 0 {
		b.WriteString("nearest misses:\n")
	}
	for _, text := range w.Own.Nearest {
		fmt.Fprintf(b, "  %s\n", provider.Printable(text))
	}
}

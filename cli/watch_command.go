package cli

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// WatchCmd prints changes as they happen.
type WatchCmd struct {
	Kind    []string `help:"Only of these kinds: provider, inventory, allocation." placeholder:"KIND"`
	Host    []string `help:"Only of hosts with these names." placeholder:"HOST"`
	Project []string `help:"Only of projects with these ids." placeholder:"ID"`
	Class   []string `help:"Only of these resource classes." placeholder:"CLASS"`
	State   bool     `help:"Print the present state first."`
	After   string   `help:"Continue after this cursor, which -o json prints with each event." placeholder:"CURSOR"`
}

// watchPause is the time between attempts to connect again.
const watchPause = time.Second

// Run prints events until the user interrupts the command. It connects again, and continues after the last event.
func (c *WatchCmd) Run(g *Globals) error {
	ctx := g.untilInterrupted()
	query := url.Values{}
	for name, list := range map[string][]string{"kind": c.Kind, "host": c.Host, "project": c.Project, "class": c.Class} {
		if len(list) > 0 {
			query[name] = list
		}
	}
	if c.State {
		query.Set("state", "true")
	}
	client, cursor, failing := g.placement(), c.After, false
	for {
		next, err := client.Events(ctx, query, cursor, func(e placement.Event) error {
			failing = false
			return c.print(g, e)
		})
		cursor = next
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !fault.Is(err, fault.Unavailable) { // a proxy answers 502 to 504 while the service starts
			return err
		}
		if err != nil && cursor == "" { // nothing can be missed yet
			return err
		}
		if err != nil && !failing {
			failing = true
			fmt.Fprintln(g.stderr(), "berth: connection lost, connecting again:", fault.TextOf(err))
		}
		if backoff.Sleep(ctx, watchPause) != nil {
			return nil
		}
	}
}

func (c *WatchCmd) print(g *Globals, e placement.Event) error {
	if g.Output == "json" {
		return json.NewEncoder(g.stdout()).Encode(e)
	}
	at := "        "
	if !e.Time.IsZero() {
		at = e.Time.Local().Format(time.TimeOnly)
	}
	var err error
	switch e.Action {
	case placement.EventReset:
		if e.Reason != "" {
			_, err = fmt.Fprintf(g.stdout(), "%s reset: %s; the whole state follows\n", at, e.Reason)
		}
	case placement.EventSynced:
		_, err = fmt.Fprintf(g.stdout(), "%s synced\n", at)
	default:
		_, err = fmt.Fprintf(g.stdout(), "%s %-7s %-10s %s %s\n", at, e.Action, e.Kind, e.ID, e.Object)
	}
	return err
}

package cli

import (
	"context"
	"errors"
	"strconv"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

// ServerMigrationCmd groups the commands on moves of servers.
type ServerMigrationCmd struct {
	List          ServerMigrationListCmd `cmd:"" help:"List moves of servers, the newest first."`
	Abort         ServerMigrationAbort   `cmd:"" help:"Abort live migrations: the servers stay on their hosts."`
	ForceComplete ServerMigrationForce   `cmd:"" help:"Complete live migrations; the guests are paused until they have arrived."`
}

// ServerMigrationListCmd lists moves.
type ServerMigrationListCmd struct {
	Server string `arg:"" optional:"" help:"Name or id. Without it, the moves of all servers."`
}

// Run prints the moves.
func (c *ServerMigrationListCmd) Run(g *Globals) error {
	ctx, cancel := g.context()
	defer cancel()
	id := ""
	if c.Server != "" {
		s, err := g.compute().Server(ctx, c.Server)
		if err != nil {
			return err
		}
		id = s.ID
	}
	list, err := g.compute().Migrations(ctx, id)
	if err != nil {
		return err
	}
	for i := range list {
		list[i].Created = utcTime(list[i].Created)
		if updated := list[i].Updated; updated != nil {
			utc := utcTime(*updated)
			list[i].Updated = &utc
		}
	}
	var known names
	if g.Output != "json" {
		var servers []string
		for _, m := range list {
			servers = append(servers, m.Instance)
		}
		known = g.consumerNames(ctx, servers)
	}
	return printList(g, list, "-ID", false, []column[compute.Migration]{
		{name: "ID", text: func(m compute.Migration) string { return strconv.FormatInt(m.ID, 10) }},
		{name: "Server", text: func(m compute.Migration) string { return known.of(m.Instance) }},
		{name: "Type", text: func(m compute.Migration) string { return m.Kind }},
		{name: "Status", text: func(m compute.Migration) string { return m.Status }},
		{name: "From", text: func(m compute.Migration) string { return orDash(m.SourceHost) }},
		{name: "To", text: func(m compute.Migration) string { return orDash(m.DestHost) }},
		{name: "Created", text: func(m compute.Migration) string { return localTimeOf(m.Created) }},
	})
}

func orDash(text *string) string {
	if text == nil {
		return dash("")
	}
	return dash(*text)
}

// ServerMigrationAbort aborts live migrations.
type ServerMigrationAbort struct {
	Servers []string `arg:"" name:"server" help:"Names or ids."`
}

// Run requests the abort.
func (c *ServerMigrationAbort) Run(g *Globals) error {
	return ofLiveMigrations(g, c.Servers, g.compute().AbortMigration)
}

// ServerMigrationForce completes live migrations.
type ServerMigrationForce struct {
	Servers []string `arg:"" name:"server" help:"Names or ids."`
}

// Run requests the completion.
func (c *ServerMigrationForce) Run(g *Globals) error {
	return ofLiveMigrations(g, c.Servers, g.compute().ForceMigration)
}

// ofLiveMigrations requests something of the newest move of each server, which must be a live migration in progress,
// and prints for each that it was requested.
func ofLiveMigrations(g *Globals, servers []string,
	request func(ctx context.Context, server string, migration int64) error) error {
	ctx, cancel := g.context()
	defer cancel()
	results, _, failed := g.eachServer(ctx, servers, "requested", func(ctx context.Context, s compute.Server) error {
		list, err := g.compute().Migrations(ctx, s.ID)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fault.New(fault.Conflict, "the server has never been moved")
		}
		return request(ctx, s.ID, list[0].ID)
	})
	return errors.Join(g.printResults(results), failed)
}

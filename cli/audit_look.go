package cli

import (
	"context"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/read"
)

// AuditReport returns a function that reports differences to Berth's compute with the account of the command line.
func AuditReport(g *Globals) func(context.Context, host.FoundDifferences) error {
	return func(ctx context.Context, found host.FoundDifferences) error {
		return g.hosts().PutDifferences(ctx, found)
	}
}

// AuditLook returns a function that reads the services of the cloud with the account of the command line, and compares
// them. It returns fault.Invalid if the account, a certificate or an alias file cannot be used.
func AuditLook(g *Globals, aliasFiles []string) (func(context.Context) (read.Audited, error), error) {
	if err := g.account().err; err != nil {
		return nil, err
	}
	aliases, err := readAliases(aliasFiles)
	if err != nil {
		return nil, err
	}
	o := fleet.AuditOptions{Aliases: aliases, AliasesKnown: len(aliasFiles) > 0}
	return func(ctx context.Context) (read.Audited, error) {
		return read.Look(ctx, g.services(), o)
	}, nil
}

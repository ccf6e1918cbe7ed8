package cli

import (
	"context"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/provider"
)

// report returns the last report of a host. It returns fault.Invalid if name cannot be the name of a host, and
// fault.NotFound, with similar names, if no agent has reported for it.
func (g *Globals) report(ctx context.Context, name string) (host.Report, error) {
	if err := provider.CheckHostName(name); err != nil {
		return host.Report{}, err
	}
	return g.hosts().HostReport(ctx, name)
}

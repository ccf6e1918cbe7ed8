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
	list, err := g.hosts().Hosts(ctx)
	if err != nil {
		return host.Report{}, err
	}
	names := make([]string, 0, len(list))
	for _, h := range list {
		if h.Host == name {
			return h, nil
		}
		names = append(names, h.Host)
	}
	return host.Report{}, provider.UnknownHost(name, names)
}

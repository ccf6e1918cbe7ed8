package rpc

import (
	"context"

	"github.com/digitalocean/go-libvirt"
)

// Stats returns the statistics of a domain by libvirt's names, such as vcpu.0.time and net.0.rx.bytes: whole numbers
// and texts. It returns fault.NotFound for a domain that does not exist.
func Stats(ctx context.Context, c *Client, of Domain) (map[string]any, error) {
	const kinds = libvirt.DomainStatsState | libvirt.DomainStatsBalloon | libvirt.DomainStatsVCPU |
		libvirt.DomainStatsInterface | libvirt.DomainStatsBlock
	found, err := call(ctx, c, reads, func(l *libvirt.Libvirt) ([]libvirt.DomainStatsRecord, error) {
		return l.ConnectGetAllDomainStats([]libvirt.Domain{of.known()}, uint32(kinds), 0)
	})
	if err != nil {
		return nil, notFound(err)
	}
	stats := map[string]any{}
	for _, record := range found {
		for _, p := range record.Params {
			stats[p.Field] = p.Value.I
		}
	}
	return stats, nil
}

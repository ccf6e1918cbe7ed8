package app

import (
	"cmp"
	"context"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/fleet/auditor"
	"github.com/openberth/berth/fleet/read"
)

// AuditLimit is the time limit of one look of an audit.
const AuditLimit = 30 * time.Minute

// auditWait is the time between the two looks of an audit.
const auditWait = time.Minute

// Auditor returns what audits this cloud every [audit] interval, with the account of its services and in memory; nil
// without this option. What it finds are conditions of hosts too.
func (c *Cloud) Auditor() (*auditor.Auditor, error) {
	if c.Settings.AuditInterval == 0 {
		return nil, nil
	}
	network, err := c.computeNetwork()
	if err != nil {
		return nil, err
	}
	hosts := c.HostClient()
	services := read.Services{Placement: c.PlacementClient(), Compute: c.computeClient(), Hosts: &hosts, Network: network}
	compared := fleet.AuditOptions{Aliases: c.Settings.Aliases, AliasesKnown: c.Settings.PCIInPlacement}
	return auditor.New(auditor.Options{
		Look: func(ctx context.Context) (read.Audited, error) {
			return read.Look(ctx, services, compared)
		},
		Report: hosts.PutDifferences, Every: c.Settings.AuditInterval,
		Wait: cmp.Or(c.Settings.Times.AuditWait, auditWait), Limit: AuditLimit, Log: c.log.With("service", "audit")}), nil
}

// computeClient returns a client of the Compute API in memory.
func (c *Cloud) computeClient() *compute.Client {
	client := compute.NewClient("http://compute", rest.InMemory(c.Compute.Handler), serviceToken)
	c.sign(client.REST)
	return client
}

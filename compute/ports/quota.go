package ports

import (
	"context"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/fault"
)

// This file counts what ports request before Placement is called: their policies may have changed since the request of
// the user was accepted. What exceeds a quota is refused there and then.

// record stores a change of a server that counts what its ports are about to claim. refusal is the sentence of the
// quota that it would exceed.
func (b *Binder) record(ctx context.Context, server string, change func(lifecycle.Server) lifecycle.Server) (
	refusal string, err error) {
	_, err = b.store.ChangeWithinQuota(ctx, server, change)
	if quota.IsExceeded(err) {
		return fault.TextOf(err), nil
	}
	return "", err
}

// countGrowth counts what a port of a record requests now, if that is more than before.
func (b *Binder) countGrowth(ctx context.Context, server string, before, now lifecycle.Port) (refusal string,
	err error) {
	amounts, had := lifecycle.GroupAmounts(now.Groups), lifecycle.GroupAmounts(before.Groups)
	grows := false
	for class, n := range amounts {
		grows = grows || n > had[class]
	}
	if !grows {
		return "", nil
	}
	return b.record(ctx, server, func(s lifecycle.Server) lifecycle.Server {
		return s.ReportGuarantees("", map[string]lifecycle.Guarantee{now.ID: {Revision: now.Revision, Amounts: amounts}})
	})
}

// countAttached counts what the port of a change requests, if it requests amounts.
func (b *Binder) countAttached(ctx context.Context, s lifecycle.Server, p lifecycle.Port) (refusal string, err error) {
	if len(lifecycle.GroupAmounts(p.Groups)) == 0 {
		return "", nil
	}
	return b.record(ctx, s.ID, func(now lifecycle.Server) lifecycle.Server {
		return now.WithPortToAttach(s.PortChange.ID, p)
	})
}

// countHealed counts what ports have that are about to be healed.
func (b *Binder) countHealed(ctx context.Context, server string, ports []network.Port) (refusal string, err error) {
	all := map[string]lifecycle.Guarantee{}
	for _, p := range ports {
		amounts := amountsOf([]network.Port{p})
		all[p.ID] = lifecycle.Guarantee{Revision: p.Revision, Amounts: total(amounts)[""]}
	}
	return b.record(ctx, server, func(s lifecycle.Server) lifecycle.Server { return s.ReportGuarantees("", all) })
}

package read

import (
	"context"
	"slices"
	"time"

	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fleet"
	"github.com/openberth/berth/resource"
)

// Audited is the result of an audit.
type Audited struct {
	Differences []fleet.Finding `json:"differences"`
	Gaps        []fleet.Gap     `json:"gaps"`             // what could not be read
	Absent      []fleet.Gap     `json:"absent,omitempty"` // what the cloud has no service for; the audit is complete
	Berth       bool            `json:"-"`                // compute is Berth's
}

// Audit returns the differences between the services of a snapshot. It reads what the snapshot lacks for that: the
// owners of consumers, and servers that compute has and does not list. The snapshot is of s, whose compute client was
// negotiated.
func Audit(ctx context.Context, s Services, snapshot *fleet.Snapshot, o fleet.AuditOptions) (Audited, error) {
	v := fleet.NewView(snapshot)
	var owners, orphans []resource.ConsumerID
	for _, f := range v.Audit(o) {
		consumer := resource.ConsumerID(f.Subject)
		if _, holds := v.Held[consumer]; holds {
			owners = append(owners, consumer)
		}
		if f.Rule == fleet.Orphaned {
			orphans = append(orphans, consumer)
		}
	}
	slices.Sort(owners)
	if _, err := Owners(ctx, s.Placement, snapshot, slices.Compact(owners)); err != nil {
		snapshot.Gaps = append(snapshot.Gaps, fleet.Gap{Part: fleet.Consumers, Why: err.Error()})
	}
	for _, consumer := range Unlisted(ctx, s.Compute, orphans) {
		snapshot.Servers = append(snapshot.Servers, fleet.Server{ID: string(consumer), Status: fleet.StatusUnknown,
			FlavorUnknown: true})
	}
	return Audited{append([]fleet.Finding{}, fleet.NewView(snapshot).Audit(o)...),
		append([]fleet.Gap{}, snapshot.Gaps...), snapshot.Absent, snapshot.Berth}, ctx.Err()
}

// Look reads the services of a cloud, and returns the differences between them.
func Look(ctx context.Context, s Services, o fleet.AuditOptions) (Audited, error) {
	snapshot, _, err := Negotiated(ctx, &s, Options{})
	if err != nil {
		return Audited{}, err
	}
	return Audit(ctx, s, snapshot, o)
}

// Twice looks, and looks again after a wait if there are differences: what it returns was the same in both looks,
// and its gaps are those of both. between is called before the wait. Without a wait it looks once.
func Twice(ctx context.Context, wait time.Duration, look func(context.Context) (Audited, error),
	between func(first Audited)) (Audited, error) {
	first, err := look(ctx)
	if err != nil || len(first.Differences) == 0 || wait == 0 {
		return first, err
	}
	between(first)
	if backoff.Sleep(ctx, wait) != nil {
		return Audited{}, context.Cause(ctx)
	}
	second, err := look(ctx)
	second.Differences = fleet.Same(first.Differences, second.Differences)
	for _, gap := range first.Gaps { // a difference that the first look could not see is not known to be gone
		if !slices.ContainsFunc(second.Gaps, func(g fleet.Gap) bool { return g.Part == gap.Part }) {
			second.Gaps = append(second.Gaps, gap)
		}
	}
	return second, err
}

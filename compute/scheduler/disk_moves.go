package scheduler

import (
	"context"
	"fmt"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
)

// WhyNotCold returns why a server cannot leave its host with its disk; empty: it can.
func (c Scheduler) WhyNotCold(ctx context.Context, s lifecycle.Server) (string, error) {
	if !s.HasDisk() {
		return "", nil
	}
	return c.whyHostKeeps(ctx, s, diskStays)
}

// WhyNotLiveFrom returns why the host of a server lets no guest leave it by live migration; empty: it does. A live
// migration needs the connection to the other host that copies of disks need, also for a guest without a disk.
func (c Scheduler) WhyNotLiveFrom(ctx context.Context, s lifecycle.Server) (string, error) {
	return c.whyHostKeeps(ctx, s, guestStays)
}

// whyHostKeeps returns the sentence for the host of a server if nothing can be moved between it and others.
func (c Scheduler) whyHostKeeps(ctx context.Context, s lifecycle.Server, sentence func(schedule.Host) string) (string,
	error) {
	host, err := c.store.Host(ctx, s.Host)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil || host.NoDiskMoves == "" {
		return "", err
	}
	return sentence(host), nil
}

// guestStays returns the sentence for a host that guests cannot leave by live migration.
func guestStays(host schedule.Host) string {
	return fmt.Sprintf("the server cannot be migrated live from host %s: %s", host.Name, host.NoDiskMoves)
}

// diskStays returns the sentence for a host that disks cannot leave.
func diskStays(host schedule.Host) string {
	return fmt.Sprintf("the disk of the server cannot leave host %s: %s", host.Name, host.NoDiskMoves)
}

// excludeWithoutDisk excludes the hosts to which the disk of a server that moves cannot be copied, and for a live
// migration those to which its guest cannot. The server stays where it is if there is no other.
func (c Scheduler) excludeWithoutDisk(ctx context.Context, s lifecycle.Server, input schedule.Input) error {
	live := s.Move != nil && s.Move.Kind == lifecycle.LiveMigration
	if !live && (s.Move == nil || !s.Move.CopiesDisk() || s.Image == "" && s.Move.From.Flavor.DiskGB == 0) {
		return nil
	}
	from, err := c.store.Host(ctx, s.Move.From.Host)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	stays, refused := diskStays, "the disk of the server cannot be copied to it: "
	if live {
		stays, refused = guestStays, "the server cannot be migrated live to it: "
	}
	for _, host := range input.Hosts {
		reason := ""
		switch {
		case host.Name == s.Move.From.Host: // it is copied on the host
		case from.NoDiskMoves != "":
			reason = stays(from)
		case host.NoDiskMoves != "":
			reason = refused + host.NoDiskMoves
		}
		if reason != "" && input.ExcludedHosts[host.Name] == "" {
			input.ExcludedHosts[host.Name] = reason
		}
	}
	return nil
}

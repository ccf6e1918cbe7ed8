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
	host, err := c.store.Host(ctx, s.Host)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil || host.NoDiskMoves == "" {
		return "", err
	}
	return diskStays(host), nil
}

// diskStays returns the sentence for a host that disks cannot leave.
func diskStays(host schedule.Host) string {
	return fmt.Sprintf("the disk of the server cannot leave host %s: %s", host.Name, host.NoDiskMoves)
}

// excludeWithoutDisk excludes the hosts to which the disk of a server that moves cannot be copied. The server stays
// where it is if there is no other.
func (c Scheduler) excludeWithoutDisk(ctx context.Context, s lifecycle.Server, input schedule.Input) error {
	if s.Move == nil || !s.Move.CopiesDisk() || s.Image == "" && s.Move.From.Flavor.DiskGB == 0 {
		return nil
	}
	from, err := c.store.Host(ctx, s.Move.From.Host)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	for _, host := range input.Hosts {
		reason := ""
		switch {
		case host.Name == s.Move.From.Host: // it is copied on the host
		case from.NoDiskMoves != "":
			reason = diskStays(from)
		case host.NoDiskMoves != "":
			reason = "the disk of the server cannot be copied to it: " + host.NoDiskMoves
		}
		if reason != "" && input.ExcludedHosts[host.Name] == "" {
			input.ExcludedHosts[host.Name] = reason
		}
	}
	return nil
}

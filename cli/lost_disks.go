package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// refuseLostDisks returns fault.Conflict, with a sentence, if evacuated servers would lose disks that are on the hosts
// that they leave.
func (g *Globals) refuseLostDisks(ctx context.Context, servers []string) error {
	var lost []string
	disks := map[string]string{} // DiskImages by host; nil: not read
	for _, name := range servers {
		s, err := g.compute().Server(ctx, name)
		if err != nil {
			continue // the evacuation reports it
		}
		if !hasDisk(s) {
			continue
		}
		if len(disks) == 0 {
			list, err := g.hosts().Hosts(ctx)
			if err != nil {
				return err
			}
			for _, h := range list {
				disks[h.Host] = h.DiskImages
			}
		}
		at := ""
		if s.Place != nil && s.Place.Host != nil {
			at = *s.Place.Host
		}
		if disks[at] != host.NoDisks {
			lost = append(lost, fmt.Sprintf("%s (on %s)", s.Name, at))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "nothing was evacuated, because these servers would lose their disks: %s; the "+
		"disks are on the host that is down, and each guest would get a new one from its image. Bring the host back, or "+
		"add --lose-disk", strings.Join(lost, ", "))
}

// hasDisk reports whether a server has a disk.
func hasDisk(s compute.Server) bool {
	_, image := s.Image.(map[string]any)
	return image || s.Flavor.FlavorValues != nil && s.Flavor.Disk > 0
}

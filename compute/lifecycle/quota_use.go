package lifecycle

import "github.com/openberth/berth/compute/quota"

// QuotaUse returns what a server counts against the quotas of its project; nothing if it has ended. While it is resized
// it counts the larger of both flavors, so neither a confirmation nor a revert can exceed a limit. A shelved server
// counts, so it can always be unshelved.
func (s Server) QuotaUse() quota.Amounts {
	if !s.Ended.IsZero() || s.State == Deleted {
		return nil
	}
	use := quota.Amounts{quota.Instances: 1, quota.Cores: s.Flavor.VCPUs, quota.RAM: s.Flavor.MemoryMB}
	if s.Move != nil {
		use[quota.Cores] = max(use[quota.Cores], s.Move.From.Flavor.VCPUs)
		use[quota.RAM] = max(use[quota.RAM], s.Move.From.Flavor.MemoryMB)
	}
	return use
}

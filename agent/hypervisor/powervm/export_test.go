package powervm

import "context"

// Sweep searches once for abandoned partitions, as Maintain does.
func (h *Hypervisor) Sweep(ctx context.Context) error { return h.sweep(ctx) }

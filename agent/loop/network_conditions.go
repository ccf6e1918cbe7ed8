package loop

import (
	"slices"
	"sync"

	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/condition"
)

// networkConditions are the conditions of the host that concern networks, from both of their sources.
type networkConditions struct {
	mu           sync.Mutex
	vfs, bridges []condition.Condition
}

// vfsCompared replaces the conditions of VFs and returns the event with all.
func (c *networkConditions) vfsCompared(list []condition.Condition) state.VFsCompared {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.vfs = list
	return state.VFsCompared{Conditions: slices.Concat(c.vfs, c.bridges)}
}

// bridgesSynced replaces the conditions of bridges and returns the event with all. changed is false if they are those
// of the last call.
func (c *networkConditions) bridgesSynced(list []condition.Condition) (e state.VFsCompared, changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = !slices.Equal(c.bridges, list)
	c.bridges = list
	return state.VFsCompared{Conditions: slices.Concat(c.vfs, c.bridges)}, changed
}

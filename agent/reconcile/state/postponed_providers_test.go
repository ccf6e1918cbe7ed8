package state

import (
	"testing"

	"github.com/openberth/berth/resource"
)

// The release of the devices that delay the creation of a provider begins a sync, which creates it. Another release
// does not.
func TestFreedPostponedHolderBeginsASync(t *testing.T) {
	c := &Core{Postponed: map[resource.ConsumerID]bool{"s1": true}}
	if ApplyFreed(c, "s2", nil); c.WantSync {
		t.Error("the release of another server begins a sync")
	}
	if ApplyFreed(c, "s1", nil); !c.WantSync {
		t.Error("the release of the postponed server begins no sync")
	}
}

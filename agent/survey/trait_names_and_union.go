package survey

import (
	"slices"
	"strings"

	"github.com/openberth/berth/resource"
)

// The traits that the survey itself puts on providers.
const (
	// on each device provider: its agent recognises it by this trait
	ManagedPCI     resource.Trait = "COMPUTE_MANAGED_PCI_DEVICE"
	OwnerNova      resource.Trait = "OWNER_NOVA"             // on each provider of the tree
	LiveMigratable resource.Trait = "HW_PCI_LIVE_MIGRATABLE" // live_migratable of the rule is true
	// on the root: a rule has remote_managed, and the agent reports how the card of such a device finds it
	RemotePorts resource.Trait = "COMPUTE_REMOTE_MANAGED_PORTS"
)

// union returns a sorted set of traits.
func union(traits []resource.Trait, more ...resource.Trait) []resource.Trait {
	all := append(slices.Clone(traits), more...)
	slices.Sort(all)
	return slices.Compact(all)
}

func text(traits []resource.Trait) string {
	words := make([]string, len(traits))
	for i, t := range traits {
		words[i] = string(t)
	}
	return strings.Join(words, " ")
}

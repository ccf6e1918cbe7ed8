package bandwidth

import (
	"regexp"
	"slices"
	"strings"

	"github.com/openberth/berth/resource"
)

// Tunnel is the trait of the provider for tunnelled networks.
const Tunnel resource.Trait = "CUSTOM_NETWORK_TUNNEL_PROVIDER"

const (
	physnetPrefix = "CUSTOM_PHYSNET_"
	vnicPrefix    = "CUSTOM_VNIC_TYPE_"
)

var separators = regexp.MustCompile(`[^0-9A-Za-z]+`)

// PhysnetTrait returns the trait of a physical network. Names that differ only in case and separators have one trait.
func PhysnetTrait(physnet string) resource.Trait { return trait(physnetPrefix, physnet) }

// VNICTrait returns the trait of a vnic type, such as CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL.
func VNICTrait(vnicType string) resource.Trait { return trait(vnicPrefix, vnicType) }

func trait(prefix, name string) resource.Trait {
	return resource.Trait(prefix + strings.ToUpper(separators.ReplaceAllString(name, "_")))
}

// IsReported reports whether a trait belongs to the reporter of bandwidth. All other traits of a provider belong to
// other clients and are kept.
func IsReported(t resource.Trait) bool {
	return t == Tunnel || strings.HasPrefix(string(t), physnetPrefix) || strings.HasPrefix(string(t), vnicPrefix)
}

// supported are the vnic types that the mechanism driver of an agent type can bind.
var supported = map[AgentType][]string{
	OpenVSwitch: {"normal", "direct", "smart-nic", "vdpa"},
	NICSwitch:   {"direct", "macvtap", "direct-physical", "accelerator-direct"},
	OVN: {"normal", "direct", "direct-physical", "macvtap", "vdpa", "remote-managed", "baremetal",
		"virtio-forwarder"},
}

// ParseVNICTypes returns the supported vnic types of an agent type without the prohibited ones, the elements of
// vnic_type_prohibit_list. The errors name elements that are not supported types, and report a list that prohibits all
// types.
func ParseVNICTypes(agent AgentType, prohibited []string) (types []string, wrong []error) {
	all := supported[agent]
	for _, one := range prohibited {
		if !slices.Contains(all, one) {
			wrong = append(wrong, invalid(one, "the %s does not support this vnic type; write some of %s", agent,
				strings.Join(all, ", ")))
		}
	}
	for _, one := range all {
		if !slices.Contains(prohibited, one) {
			types = append(types, one)
		}
	}
	if len(types) == 0 {
		wrong = append(wrong, invalid(strings.Join(prohibited, ","),
			"no vnic type is left for the %s; remove at least one element", agent))
	}
	return types, wrong
}

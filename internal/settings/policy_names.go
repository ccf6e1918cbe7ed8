package settings

import (
	compute "github.com/openberth/berth/compute/policies"
	image "github.com/openberth/berth/image/policies"
	network "github.com/openberth/berth/network/policies"
	placement "github.com/openberth/berth/placement/policies"
	"github.com/openberth/berth/policy"
)

// policyNames returns the names of the rules of all services, because one policy file may have rules of several.
func policyNames() []string {
	return policy.Names(compute.Rules(), image.Rules(), network.Rules(), placement.Rules())
}

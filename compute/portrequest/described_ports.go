package portrequest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// ParsePort parses the description of a port that does not exist, the n-th one of a server:
//
//	vnic_type=direct,physical_network=physnet0,egress=1000,ingress=1000
//
// The rates are guarantees in kbit/s. physical_network may be repeated, one for each segment of the network; without
// one the network is tunnelled. vnic_type is normal by default. Each other key and each wrong value is fault.Invalid.
func ParsePort(text string, n int) (Port, error) {
	p := Port{ID: string(provider.IDFromName(portSpace, strconv.Itoa(n))), VNICType: "normal"}
	amounts := resource.Amounts{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "vnic_type":
			p.VNICType = value
		case "physical_network":
			p.PhysicalNetworks = append(p.PhysicalNetworks, value)
		case "egress", "ingress":
			rate, err := strconv.ParseUint(value, 10, 31)
			if err != nil {
				return Port{}, fault.New(fault.Invalid, "port %q: %s is %q; write the guaranteed rate in "+
					"kbit/s, such as %s=1000", text, key, value, key)
			}
			amounts[map[string]resource.Class{"egress": bandwidth.EgressBandwidth,
				"ingress": bandwidth.IngressBandwidth}[key]] = int(rate)
		default:
			return Port{}, fault.New(fault.Invalid, "port %q: unknown key %q; write some of vnic_type, "+
				"physical_network, egress and ingress as key=value", text, key)
		}
	}
	if len(p.PhysicalNetworks) == 0 {
		p.PhysicalNetworks = []string{""}
	}
	if len(amounts) > 0 {
		p.Groups = []Group{{ID: fmt.Sprintf("bandwidth-%d", n), Resources: amounts,
			Required: [][]resource.Trait{networkTraits(p.PhysicalNetworks), {bandwidth.VNICTrait(p.VNICType)}}}}
	}
	return p, nil
}

// portSpace is the name space of the ids of described ports.
const portSpace provider.ID = "5c0f6b3e-6b0e-4d0f-9c5a-0d3c1a0f7a11"

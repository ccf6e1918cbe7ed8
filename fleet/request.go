package fleet

import (
	"fmt"
	"maps"

	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/portrequest"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

// PortRequest is what a port of a server requests, and PortGroup a group of its resource_request.
type (
	PortRequest = portrequest.Port
	PortGroup   = portrequest.Group
)

// RequiredTraits parses an element of a group's list required: see portrequest.ParseRequired.
func RequiredTraits(element string) []resource.Trait { return portrequest.ParseRequired(element) }

// ParsePort parses the description of a port that does not exist: see portrequest.ParsePort.
func ParsePort(text string, n int) (PortRequest, error) { return portrequest.ParsePort(text, n) }

// Request returns the request to Placement of a server: of its flavor, of its image as far as compute shows the
// properties, and of its ports. Without known aliases the devices of aliases are left out, and left is why. It returns
// fault.Invalid for a flavor or a port that is not valid.
func (s *Server) Request(ports []PortRequest, aliases pci.Aliases, known bool) (ask resource.Ask, left string,
	err error) {
	f := s.Flavor
	if s.FromVolume {
		f.DiskGB = 0
	}
	if f.ExtraSpecs[aliasSpec] != "" && !known {
		left = "the devices of " + aliasSpec + "=" + f.ExtraSpecs[aliasSpec]
		f.ExtraSpecs = maps.Clone(f.ExtraSpecs)
		delete(f.ExtraSpecs, aliasSpec)
	}
	n := 0
	ask, _, err = flavor.Ask(f, flavor.Image{Properties: s.ImageProperties}, aliases,
		flavor.Options{PCIInPlacement: true}, func() string { n++; return fmt.Sprint("device", n) })
	if err != nil {
		return ask, left, err
	}
	of, err := portrequest.Make(ports, portrequest.Options{})
	if err != nil {
		return ask, left, err
	}
	ask, err = portrequest.Add(ask, of)
	return ask, left, err
}

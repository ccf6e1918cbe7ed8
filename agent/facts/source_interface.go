package facts

import "github.com/openberth/berth/pci"

// Source reads the hardware of a host.
type Source interface {
	// Check returns Invalid when the source can never be read, for a start that must not wait for it.
	Check() error
	// Read reads the hardware as it is now. A device that cannot be read is a problem and does not affect the others.
	// Properties that are slow to read are read only of the devices for which the rules need them. Unavailable: it cannot
	// be read now.
	Read(rules pci.Rules) (Facts, error)
}

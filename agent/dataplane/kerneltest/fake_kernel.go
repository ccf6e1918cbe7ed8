// Package kerneltest is a kernel with VFs in memory, for tests of what configures them.
package kerneltest

import (
	"slices"
	"sync"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Kernel is a kernel with one PF and its VFs.
type Kernel struct {
	// Unsupported are attributes that the NIC refuses to set. With NoGuarantee it refuses guaranteed rates only.
	Unsupported []vfconfig.Attribute
	NoGuarantee bool
	Speed       int   // of the PF
	Err         error // of every operation; nil: none

	mu    sync.Mutex
	vfs   map[string]vfconfig.Settings // by address
	order []string                     // the operations, as "address operation"
}

// New returns a kernel with VFs at these addresses.
func New(addresses ...string) *Kernel {
	k := &Kernel{Speed: 1000, vfs: map[string]vfconfig.Settings{}}
	for _, a := range addresses {
		k.vfs[a] = vfconfig.Unassigned()
	}
	return k
}

// Find returns a VF. NotFound: there is none at the address.
func (k *Kernel) Find(address pci.Address) (vfconfig.VF, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, there := k.vfs[address.String()]; !there {
		return vfconfig.VF{}, fault.New(fault.NotFound, "no VF at %s", address)
	}
	return vfconfig.VF{Address: address.String(), Interface: "ens1f0", Speed: k.Speed}, nil
}

// Read returns the configuration of a VF.
func (k *Kernel) Read(vf vfconfig.VF) (vfconfig.Settings, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.vfs[vf.Address], nil
}

// Set performs an operation. Invalid: the NIC does not support it.
func (k *Kernel) Set(vf vfconfig.VF, o vfconfig.Operation) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.Err != nil {
		return k.Err
	}
	if slices.Contains(k.Unsupported, o.Attribute) || k.NoGuarantee && o.Attribute == vfconfig.Rates &&
		o.Settings.MinRate > 0 {
		return fault.New(fault.Invalid, "the kernel refuses %s: operation not supported", o)
	}
	k.order = append(k.order, vf.Address+" "+o.String())
	s := k.vfs[vf.Address]
	switch o.Attribute {
	case vfconfig.MAC:
		s.MAC = o.Settings.MAC
	case vfconfig.VLAN:
		s.VLAN = o.Settings.VLAN
	case vfconfig.Rates:
		s.MinRate, s.MaxRate = o.Settings.MinRate, o.Settings.MaxRate
	case vfconfig.SpoofCheck:
		s.SpoofCheck = o.Settings.SpoofCheck
	case vfconfig.Trust:
		s.Trusted = o.Settings.Trusted
	case vfconfig.LinkState:
		s.Disabled = o.Settings.Disabled
	}
	k.vfs[vf.Address] = s
	return nil
}

// Settings returns the configuration of the VF at an address.
func (k *Kernel) Settings(address string) vfconfig.Settings {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.vfs[address]
}

// SetErr makes all operations fail with an error from now on; nil: none.
func (k *Kernel) SetErr(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.Err = err
}

// Change changes the configuration of a VF as a guest or an operator may do.
func (k *Kernel) Change(address string, s vfconfig.Settings) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.vfs[address] = s
}

// Operations returns the operations since the last call.
func (k *Kernel) Operations() (out []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	out, k.order = k.order, nil
	return out
}

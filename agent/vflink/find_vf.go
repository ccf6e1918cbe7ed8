// Package vflink reads and changes the configuration of VFs through the interfaces of their PFs: sysfs for the names,
// rtnetlink for the configuration. It holds no decisions; package vfconfig makes them.
package vflink

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// Links configures the VFs of this machine.
type Links struct {
	Sysfs string // the directory where sysfs is mounted; empty: /sys
}

func (l Links) path(elements ...string) string {
	root := l.Sysfs
	if root == "" {
		root = "/sys"
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// Find returns the interface of the PF of a VF, and the number of the VF. NotFound: there is no VF at the address, or
// its PF has no network interface.
func (l Links) Find(address pci.Address) (vfconfig.VF, error) {
	vf := vfconfig.VF{Address: address.String()}
	pf := l.path("bus", "pci", "devices", vf.Address, "physfn")
	index, err := number(pf, vf.Address)
	if err != nil {
		return vf, fault.New(fault.NotFound, "%s is not a VF of this host: %w", vf.Address, err)
	}
	vf.Index = index
	if vf.Interface = interfaceOf(pf); vf.Interface == "" {
		return vf, fault.New(fault.NotFound, "the PF of %s has no network interface: its driver is not a network driver, "+
			"or it is bound to vfio-pci", vf.Address)
	}
	vf.Speed = l.speed(vf.Interface)
	return vf, nil
}

// number returns the number of a VF at its PF: the links virtfn0, virtfn1 and so on of a PF lead to its VFs.
func number(pf, address string) (int, error) {
	entries, err := os.ReadDir(pf)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		digits, isLink := strings.CutPrefix(entry.Name(), "virtfn")
		if !isLink {
			continue
		}
		target, err := os.Readlink(filepath.Join(pf, entry.Name()))
		if err == nil && filepath.Base(target) == address {
			return strconv.Atoi(digits)
		}
	}
	return 0, os.ErrNotExist
}

// interfaceOf returns the network interface of a PF; empty if it has none. A NIC in switchdev mode has more, one for
// each VF: the kernel names their ports after the VF, such as pf0vf3.
func interfaceOf(pf string) string {
	entries, err := os.ReadDir(filepath.Join(pf, "net"))
	if err != nil {
		return ""
	}
	var names []string
	for _, entry := range entries {
		port, err := os.ReadFile(filepath.Join(pf, "net", entry.Name(), "phys_port_name"))
		if err != nil || !strings.Contains(string(port), "vf") {
			names = append(names, entry.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}

// speed returns the speed of an interface's link in megabits per second; 0: unknown.
func (l Links) speed(name string) int {
	data, err := os.ReadFile(l.path("class", "net", name, "speed"))
	if err != nil {
		return 0
	}
	speed, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || speed < 0 {
		return 0
	}
	return speed
}

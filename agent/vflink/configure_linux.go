package vflink

import (
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/openberth/berth/agent/vfconfig"
	"github.com/openberth/berth/fault"
)

// Read returns the configuration of a VF. NotFound: the interface or the VF does not exist any more.
func (l Links) Read(vf vfconfig.VF) (vfconfig.Settings, error) {
	link, err := netlink.LinkByName(vf.Interface)
	if err != nil {
		return vfconfig.Settings{}, failure("cannot read interface "+vf.Interface, err)
	}
	for _, info := range link.Attrs().Vfs {
		if info.ID == vf.Index {
			return settings(info), nil
		}
	}
	return vfconfig.Settings{}, fault.New(fault.NotFound, "interface %s has no VF %d", vf.Interface, vf.Index)
}

// settings converts what the kernel returns of a VF. An attribute that the driver does not have is all ones.
func settings(info netlink.VfInfo) vfconfig.Settings {
	return vfconfig.Settings{MAC: strings.ToLower(info.Mac.String()), VLAN: info.Vlan, MinRate: int(info.MinTxRate),
		MaxRate: int(info.MaxTxRate), SpoofCheck: info.Spoofchk, Trusted: info.Trust == 1,
		Disabled: info.LinkState == netlink.VF_LINK_STATE_DISABLE}
}

// Set performs an operation on a VF. Invalid: the driver does not support it, or not this value. Forbidden: the process
// lacks CAP_NET_ADMIN. NotFound: the interface or the VF does not exist any more.
func (l Links) Set(vf vfconfig.VF, o vfconfig.Operation) error {
	link, err := netlink.LinkByName(vf.Interface)
	if err != nil {
		return failure("cannot find interface "+vf.Interface, err)
	}
	if err := set(link, vf.Index, o); err != nil {
		return failure("the kernel refuses "+o.String(), err)
	}
	return nil
}

// set makes the call of an operation.
func set(link netlink.Link, index int, o vfconfig.Operation) error {
	want := o.Settings
	switch o.Attribute {
	case vfconfig.MAC:
		mac, err := net.ParseMAC(want.MAC)
		if err != nil {
			return err
		}
		return netlink.LinkSetVfHardwareAddr(link, index, mac)
	case vfconfig.VLAN:
		return netlink.LinkSetVfVlan(link, index, want.VLAN)
	case vfconfig.Rates:
		return netlink.LinkSetVfRate(link, index, want.MinRate, want.MaxRate)
	case vfconfig.SpoofCheck:
		return netlink.LinkSetVfSpoofchk(link, index, want.SpoofCheck)
	case vfconfig.Trust:
		return netlink.LinkSetVfTrust(link, index, want.Trusted)
	}
	state := netlink.VF_LINK_STATE_AUTO
	if want.Disabled {
		state = netlink.VF_LINK_STATE_DISABLE
	}
	return netlink.LinkSetVfState(link, index, uint32(state))
}

// failure returns a kernel's error as a fault. Drivers answer EINVAL as well as EOPNOTSUPP for what they do not
// support: igb answers EINVAL for a guaranteed rate.
func failure(what string, err error) error {
	var gone netlink.LinkNotFoundError
	kind := fault.Unavailable
	switch {
	case errors.As(err, &gone), errors.Is(err, syscall.ENODEV):
		kind = fault.NotFound
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return fault.New(fault.Forbidden, "%s: %w; give the agent the capability CAP_NET_ADMIN", what, err)
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ERANGE):
		kind = fault.Invalid
	}
	return fault.New(kind, "%s: %w", what, err)
}

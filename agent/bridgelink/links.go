// Package bridgelink reads and changes the links of a host by rtnetlink, their settings below /proc/sys/net, and the
// rules of nftables by the program nft.
package bridgelink

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/fault"
)

// mark begins the alias of the links that Berth has made; the UUID of their network follows.
const mark = "berth:"

// sysctl is the directory of the kernel's settings for networks.
const sysctl = "/proc/sys/net"

// noPrefixRoute is IFA_F_NOPREFIXROUTE of linux/if_addr.h: no route to the network of an address is made.
const noPrefixRoute = 0x200

// noDetection is IFA_F_NODAD of linux/if_addr.h: an address of IPv6 is used at once. The other hosts have the gateway
// too.
const noDetection = 0x02

// Kernel reads and changes the links of the network namespace of the process.
type Kernel struct{}

// Links returns all links. Of the settings those are read that the desired links have.
func (Kernel) Links(want []bridgeplan.Link) (map[string]bridgeplan.Link, error) {
	list, err := netlink.LinkList()
	if err != nil {
		return nil, failure("the interfaces of this host cannot be read", err)
	}
	names, all := map[int]string{}, map[string]bridgeplan.Link{}
	for _, l := range list {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	for _, l := range list {
		out, err := read(l, names)
		if err != nil {
			return nil, failure("the interface "+l.Attrs().Name+" cannot be read", err)
		}
		all[out.Name] = out
	}
	for _, w := range want {
		p, exists := all[w.Name]
		if !exists {
			continue
		}
		p.Settings = map[string]string{}
		for name := range w.Settings {
			value, err := os.ReadFile(filepath.Join(sysctl, name))
			switch {
			case err == nil:
				p.Settings[name] = strings.TrimSpace(string(value))
			case lacksIPv6(name, err):
				p.Settings[name] = w.Settings[name]
			}
		}
		all[w.Name] = p
	}
	return all, nil
}

// Routes adds the routes of the main table to links.
func (Kernel) Routes(links map[string]bridgeplan.Link) error {
	list, err := netlink.LinkList()
	if err != nil {
		return failure("the interfaces of this host cannot be read", err)
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return failure("the routes of this host cannot be read", err)
	}
	for _, l := range list {
		out, known := links[l.Attrs().Name]
		for _, r := range routes {
			if at, valid := prefixOf(r.Dst); known && leavesBy(r, l.Attrs().Index) && valid && at.Bits() > 0 &&
				!at.Addr().IsLinkLocalUnicast() && !at.Addr().IsMulticast() {
				out.Routes = append(out.Routes, at)
			}
		}
		if known {
			links[out.Name] = out
		}
	}
	return nil
}

// leavesBy reports whether a route uses a link, also as one of several.
func leavesBy(r netlink.Route, link int) bool {
	return r.LinkIndex == link || slices.ContainsFunc(r.MultiPath, func(hop *netlink.NexthopInfo) bool {
		return hop.LinkIndex == link
	})
}

// read converts a link. names are those of all links by index.
func read(l netlink.Link, names map[int]string) (bridgeplan.Link, error) {
	a := l.Attrs()
	out := bridgeplan.Link{Name: a.Name, MAC: a.HardwareAddr.String(), MTU: a.MTU, Up: a.Flags&net.FlagUp != 0,
		Master: names[a.MasterIndex]}
	out.Owner, _ = strings.CutPrefix(a.Alias, mark)
	if out.Owner == a.Alias {
		out.Owner = ""
	}
	addresses, err := netlink.AddrList(l, netlink.FAMILY_ALL)
	if err != nil && !gone(err) {
		return out, err
	}
	for _, one := range addresses {
		at, valid := prefixOf(one.IPNet)
		if valid && !madeByKernel(at.Addr(), out) {
			out.Addresses = append(out.Addresses, bridgeplan.Address{Prefix: at, NoRoute: one.Flags&noPrefixRoute != 0})
		}
	}
	switch l := l.(type) {
	case *netlink.Bridge:
		out.Kind = bridgeplan.Bridge
	case *netlink.Veth:
		out.Kind, out.Peer = bridgeplan.Veth, names[a.ParentIndex]
	case *netlink.Vlan:
		out.Kind, out.On, out.Tag = bridgeplan.VLAN, names[a.ParentIndex], l.VlanId
	case *netlink.Vxlan:
		out.Kind, out.VNI, out.From, out.Port = bridgeplan.VXLAN, l.VxlanId, l.SrcAddr.String(), l.Port
		out.Ends, err = ends(a.Index)
	}
	return out, err
}

// madeByKernel reports whether the kernel may have given an address to a link: a link-local one of IPv6, which on
// Berth's links has the form of a MAC address.
func madeByKernel(at netip.Addr, l bridgeplan.Link) bool {
	b := at.As16()
	return at.Is6() && at.IsLinkLocalUnicast() && (l.Owner == "" || b[11] == 0xff && b[12] == 0xfe)
}

// prefixOf converts the destination of a route; the default route may have none.
func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	at, valid := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(at.Unmap(), bits), valid
}

// ends returns the addresses to which a VXLAN device floods, sorted.
func ends(index int) (list []string, err error) {
	entries, err := netlink.NeighList(index, syscall.AF_BRIDGE)
	for _, e := range entries {
		if len(e.IP) > 0 && isFlood(e.HardwareAddr) {
			list = append(list, e.IP.String())
		}
	}
	slices.Sort(list)
	if gone(err) {
		err = nil
	}
	return list, err
}

// isFlood reports whether a MAC address is that of entries for frames whose destination is not known.
func isFlood(mac net.HardwareAddr) bool {
	return !slices.ContainsFunc(mac, func(b byte) bool { return b != 0 })
}

// Perform performs an operation. Forbidden: the process lacks CAP_NET_ADMIN. Unavailable: the kernel refuses it.
func (k Kernel) Perform(o bridgeplan.Operation) error {
	err := k.perform(o)
	if err == nil || o.Verb == bridgeplan.Delete && gone(err) || o.Verb != bridgeplan.Create && errors.Is(err,
		syscall.EEXIST) {
		return nil
	}
	return failure("the kernel refuses: "+o.String(), err)
}

func (k Kernel) perform(o bridgeplan.Operation) error {
	switch o.Verb {
	case bridgeplan.Create:
		return create(o.Link)
	case bridgeplan.Set:
		err := os.WriteFile(filepath.Join(sysctl, o.Name), []byte(o.Value), 0o644)
		if lacksIPv6(o.Name, err) {
			return nil
		}
		return err
	}
	l, err := netlink.LinkByName(o.Link.Name)
	if err != nil {
		return err
	}
	switch o.Verb {
	case bridgeplan.Delete:
		return netlink.LinkDel(l)
	case bridgeplan.SetMAC:
		mac, err := net.ParseMAC(o.Link.MAC)
		if err != nil {
			return err
		}
		return netlink.LinkSetHardwareAddr(l, mac)
	case bridgeplan.SetMTU:
		return netlink.LinkSetMTU(l, o.Link.MTU)
	case bridgeplan.SetUp:
		return netlink.LinkSetUp(l)
	case bridgeplan.SetMaster:
		return setMaster(l, o.Link.Master)
	case bridgeplan.AddAddress:
		return netlink.AddrAdd(l, address(o.Address))
	case bridgeplan.DelAddress:
		return netlink.AddrDel(l, address(o.Address))
	}
	end := &netlink.Neigh{LinkIndex: l.Attrs().Index, Family: syscall.AF_BRIDGE, Flags: netlink.NTF_SELF,
		State: netlink.NUD_PERMANENT, IP: net.ParseIP(o.Value), HardwareAddr: make(net.HardwareAddr, 6)}
	if o.Verb == bridgeplan.DelEnd {
		return netlink.NeighDel(end)
	}
	return netlink.NeighAppend(end)
}

// lacksIPv6 reports whether a setting of IPv6 does not exist, because the link has no IPv6: its MTU is below 1280, or
// the kernel has none.
func lacksIPv6(setting string, err error) bool {
	return strings.HasPrefix(setting, "ipv6/") && errors.Is(err, os.ErrNotExist)
}

// setMaster puts a link into a bridge, or takes it out.
func setMaster(l netlink.Link, master string) error {
	if master == "" {
		return netlink.LinkSetNoMaster(l)
	}
	bridge, err := netlink.LinkByName(master)
	if err != nil {
		return err
	}
	return netlink.LinkSetMaster(l, bridge)
}

// create makes a link with its mark. A pair is marked at both ends. A link that cannot be marked is removed at once;
// one that a killed process has left is recognised by bridgeplan.
func create(w bridgeplan.Link) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = w.Name
	var link netlink.Link
	switch w.Kind {
	case bridgeplan.Bridge:
		link = &netlink.Bridge{LinkAttrs: attrs}
	case bridgeplan.Veth:
		link = &netlink.Veth{LinkAttrs: attrs, PeerName: w.Peer}
	case bridgeplan.VXLAN:
		link = &netlink.Vxlan{LinkAttrs: attrs, VxlanId: w.VNI, SrcAddr: net.ParseIP(w.From), Port: w.Port, Learning: true,
			Age: 300}
	case bridgeplan.VLAN:
		below, err := netlink.LinkByName(w.On)
		if err != nil {
			return err
		}
		attrs.ParentIndex = below.Attrs().Index
		link = &netlink.Vlan{LinkAttrs: attrs, VlanId: w.Tag}
	default:
		return fault.New(fault.Internal, "an interface of kind %q cannot be made", w.Kind)
	}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	for _, name := range []string{w.Peer, w.Name} {
		if name == "" {
			continue
		}
		made, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkSetAlias(made, mark+w.Owner)
		}
		if err != nil {
			return errors.Join(err, netlink.LinkDel(link))
		}
	}
	return nil
}

// address converts an address.
func address(a bridgeplan.Address) *netlink.Addr {
	out := &netlink.Addr{IPNet: &net.IPNet{IP: a.Prefix.Addr().AsSlice(), Mask: net.CIDRMask(a.Prefix.Bits(),
		a.Prefix.Addr().BitLen())}}
	if a.NoRoute {
		out.Flags = noPrefixRoute
	}
	if a.Prefix.Addr().Is6() {
		out.Flags |= noDetection
	}
	return out
}

// gone reports whether an error means that a link does not exist (any more).
func gone(err error) bool {
	var missing netlink.LinkNotFoundError
	return errors.As(err, &missing) || errors.Is(err, syscall.ENODEV)
}

// failure converts an error of the kernel.
func failure(what string, err error) error {
	kind := fault.Unavailable
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		kind = fault.Forbidden
	}
	return fault.New(kind, "%s: %w", what, err)
}

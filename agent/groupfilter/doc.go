// Package groupfilter renders the security groups of the ports of a host as nftables: the complete text of Berth's two
// tables, and the commands that change one state of them to another.
//
// The kernel needs both families. A chain of family bridge knows the interface of a guest, but not the connection of a
// packet; a chain of family inet, to which br_netfilter passes the frames of a bridge, knows the connection, but not
// the interface. So the chains of family bridge check the source of a frame and set a mark, which names the security
// groups of the port; the chains of family inet decide by the mark, and replace it by the mark passed. Afterwards a
// frame of a port without that mark is dropped, so nothing passes if br_netfilter does not serve the bridge.
//
//	from a guest   bridge prerouting: source, mark → inet prerouting: rules of egress → bridge forward, input: passed?
//	to a guest     bridge forward: mark → inet forward: rules of ingress → bridge postrouting: passed?
//	from the host  inet postrouting: rules of ingress by bridge and address → bridge output: denied to this port?
//
// What the host sends is dropped at the interface of the port whose rules deny it: an address pair of one port must not
// stop what the host sends to others.
//
// Ports with the same groups share their chains, and a new port or a new member of a group only adds elements.
package groupfilter

// Package network is the network service: the part of the OpenStack Networking API v2.0 for networks, subnets, ports,
// segments, QoS policies and agents. It has no code; its packages are:
//
//	address      selects IP and MAC addresses
//	qos          the effective policy of a port, and the resources that a port requests from Placement
//	binding      which agent binds a port, and what a change of a policy means for allocations
//	store        SQL
//	operations   the changes of networks, subnets, ports and policies, each in one transaction
//	policies     names and defaults of the policy rules: Neutron's
//	server       the Networking API, and the API for Berth's own agents
package network

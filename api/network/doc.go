// Package network is the contract of the network service: types and a client of the part of the OpenStack Networking
// API v2.0 that Berth uses, for Neutron and for `berth network` alike; and the API for Berth's own agents.
//
//	PUT  /berth/v1/network-agents/{host}/{agent type}   what an agent has: AgentReport
//	GET  /berth/v1/hosts/{host}/ports?since=REVISION    the ports of a host for its data plane: HostPorts
//	PUT  /berth/v1/hosts/{host}/account                 bind a host to the account of its agent: HostAccount
//
// A deleted port that has an allocation in Placement is released by the network service. A client that releases the
// allocation itself does that before it deletes the port, or after it; both orders release the amounts once.
package network

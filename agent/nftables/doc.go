// Package nftables enforces the security groups of the ports of a host: it writes the tables of agent/groupfilter with
// nft, and marks the open connections that the rules permit no more.
//
// Only Berth's tables are changed. A start of the agent changes nothing if the kernel has the tables of the state, and
// otherwise replaces them in one transaction. If the agent ends, the rules stay.
package nftables

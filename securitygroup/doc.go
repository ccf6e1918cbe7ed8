// Package securitygroup holds the rules of security groups: it checks them, and decides which packets of a port they
// permit. The network service and the agents use the same decisions; an engine that filters packets is compared with
// them.
package securitygroup

// Package plan decides whether and how a guest fits on one host: on which NUMA node each of its cells is, and which
// devices it gets. The search is exact: it finds a plan if and only if there is one, whatever the number of equal
// devices, and of all plans the one with the nearest devices.
//
// The scheduler plans on every host and claims the plan in Placement; the agent of the host plans what is still open
// when it builds the guest. The package has no side effects.
//
// Devices that no request can distinguish are one kind with a number, so the time depends on the number of kinds. The
// search has three levels: sets of nodes for the cells, each once for nodes that are equivalent; a value for each set of
// devices that must agree; and the cheapest assignment of kinds to requests, a minimum cost flow, which is repeated
// while a card would be given as a whole and in parts.
//
// The files, from the bottom to the top: plan.go has the types; flow.go, kinds.go; cards.go, values.go, nodes.go.
package plan

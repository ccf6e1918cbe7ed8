// Package plan decides whether and how a guest fits on one host: on which NUMA node each of its cells is, and which
// devices it gets. The search is exact: it finds a plan if and only if there is one, whatever the number of equal
// devices, and of all plans one with the nearest devices.
//
// The scheduler plans on every host and claims the plan in Placement; the agent of the host plans what is still open
// when it builds the guest. The package has no side effects.
//
// Devices that no request can distinguish are one kind with a number, so the time depends on the number of kinds. The
// search has three levels: the set of nodes for the cells; a value for each set of devices that must agree; and the
// cheapest assignment of kinds to requests. An assignment is a minimum cost flow, and a table of all states where cards
// are wanted as a whole and in parts. Both upper levels leave out a branch that cannot be better, because even all that
// is still open together is too little or too far, and a branch that is equivalent to one already tried.
//
// A search counts its work. One that reaches its limit is undecided, unless it has found a plan before.
//
// The files, from the bottom to the top: plan.go has the types of the package, budget.go the limit of the work,
// flow.go and cards.go the assignments. search.go has the types of a search, which kinds.go fills in; names.go
// describes what is equivalent; values.go, devices.go and nodes.go are the levels, profiles.go bounds the last one;
// make.go starts the search and returns its result. slots.go makes requests and sets from those of a server;
// disagreement.go describes why a set has no value.
package plan

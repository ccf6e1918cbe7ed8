// Package scenario runs scenarios: what services do together, as text. A scenario is a file testdata/<area>/*.txt with
// the commands of operators and users, each with its expected result. Every scenario has a cloud of its own in this
// process: Placement, compute, the network service and the agents of several hosts, with short times.
//
// script.go reads scenarios; cloud.go runs the services, and hosts.go the agents; names.go names objects instead of
// their random ids; values.go selects parts of JSON documents; commands.go has the commands; and run.go runs scenarios.
package scenario

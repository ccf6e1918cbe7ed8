// Package agent contains the agent of one host, which reports the host to Placement and compute and runs its guests.
//
//	 /sys          device_spec                    Placement                     compute
//	   │                │                      ▲     │                       ▲      │
//	   ▼                ▼                steps │     │ tree, allocations     │      │ assignments:
//	┌───────┐ devices ┌────────┐  desired  ┌───┴────┐│               reports │      │ a stream of
//	│ sysfs ├────────▶│ survey ├──────────▶│treeplan││            and guests │      │ desired states
//	└───────┘         └───┬────┘           └───┬────┘│                       │      │
//	               offers │            plan    │     │                       │      │
//	                      ▼                    ▼     ▼                       │      ▼
//	                 ┌─────────┐          ┌───────────────────────────────────────────┐
//	                 │ device  │◀────────▶│             reconcile  ⇄  loop             │
//	                 └─────────┘  claims  └───────┬───────────────────────────┬───────┘
//	                                              │ before the guest          │ build, destroy
//	                                              ▼                           ▼
//	                                         ┌─────────┐               ┌────────────┐
//	                                         │ journal │ on disk       │ hypervisor │
//	                                         └─────────┘               └────────────┘
//
// # Reporting
//
// The agent reads the machine (sysfs), computes the desired provider tree (survey: one provider for each device or PF
// that device_spec offers), and plans the changes from the present tree (treeplan). A plan is checked by its outcome,
// executed step by step with the observed generations, or discarded and made again when another client has written in
// between. A host without changes has an empty plan. What other clients wrote to the tree stays: the journal records
// what the agent wrote, and the agent deletes nothing else.
//
// The same facts go to compute as the host report, with what Placement does not have: NUMA nodes, drivers, the holder
// of each device, and conditions.
//
// # Guests
//
// The agent receives no commands. It opens every connection, and follows one stream of assignments: all servers that
// are desired on the host. It compares them with its journal and its guests, and takes the missing steps:
//
//	new server:              verify the allocation in Placement → claim devices → journal → build → report "running"
//	another id:              rename claims and guest first, once
//	power or rebuild:        stop, start or rebuild with the same devices
//	incoming live migration: claim and wait
//	outgoing live migration: migrate device by device, and keep the devices until the server is removed
//	removal:                 destroy → free → journal → report the free devices → report "gone" → forget
//
// The allocation is the claim: it has the provider of each device, and the agent picks a function inside it. Each step
// may be repeated, and the journal is written before the step that needs it. An agent that is killed between any two
// steps continues at its next start.
//
// A device for one-time use is marked as used when a guest starts with it, first in the journal, then as a reserved
// amount in Placement; only cleaning makes it available again. A disabled device is kept from further guests in the
// same way, until compute names its disablement as ended, or its time has come. An allocation that a guest lacks in
// Placement is added by a reshape; no reshape removes one.
//
// An observation never frees a claim. A device that vanishes while a guest holds it still belongs to the guest, in the
// journal and in Placement, until compute removes the server.
//
// # Packages
//
// Package reconcile decides everything, as a state machine without I/O; packages device, survey and treeplan are its
// algorithms. Packages sysfs, uevent, journal, program, health and hypervisor each use one technology and decide
// nothing. Package loop performs the effects that reconcile returns, and is the only one with goroutines. Package facts
// defines what a source such as sysfs reads.
package agent

// Package agent is the house of one host: what the host has, told truthfully, and its guests.
//
//	 /sys          device_spec                    Placement                     compute
//	   │                │                      ▲     │                       ▲      │
//	   ▼                ▼                steps │     │ tree, allocations     │      │ assignments:
//	┌───────┐ devices ┌────────┐  desired   ┌──┴──┐  │               reports │      │ a stream, each line
//	│ sysfs ├────────▶│ survey ├───────────▶│heal │  │            and guests │      │ the whole truth
//	└───────┘         └───┬────┘            └──┬──┘  │                       │      │
//	               offers │            plan    │     │                       │      │
//	                      ▼                    ▼     ▼                       │      ▼
//	                 ┌─────────┐          ┌───────────────────────────────────────────┐
//	                 │ device  │◀────────▶│                   loop                    │
//	                 └─────────┘  claims  └───────┬───────────────────────────┬───────┘
//	                                              │ before the guest          │ build, destroy
//	                                              ▼                           ▼
//	                                         ┌─────────┐               ┌────────────┐
//	                                         │ journal │ on disk       │ hypervisor │
//	                                         └─────────┘               └────────────┘
//
// # Telling
//
// The agent reads the machine (sysfs), works out what ought to be in Placement (survey: one provider for each device or PF
// that device_spec offers), and plans the way from what is there to that (heal). A plan is whole: it is checked
// by its outcome, carried out step by step with the generations that were seen, or thrown away and
// made anew when somebody else wrote meanwhile. A quiet host makes an empty plan. What others put on the
// tree stays: the agent remembers in its journal what it put there itself, and takes away nothing else.
//
// The same facts go to compute as the host report, with what Placement does not know: NUMA nodes, drivers,
// which device is held by whom, and sentences about what is wrong.
//
// # Doing
//
// Nobody commands the agent. It opens every connection, and follows one stream of assignments: all servers that shall
// be on the host. It compares that with its journal and its guests, and takes the steps that are missing:
//
//	shall be here:      verify the allocation in Placement → claim devices → journal → build → say "running"
//	shall go by another id:  rename claims and guest, first of all, once
//	shall not run, or anew:  stop, start or rebuild with the devices it has
//	shall come or go live:   claim and wait; migrate device by device, and hold what it had until it is taken away
//	shall not be here:  destroy → free → journal → report the free devices → say "gone" → forget
//
// The allocation is the claim: it says which provider each device comes from; the agent picks the function inside it.
// Each step may be repeated, and the journal is written before the step that needs it, so an agent that
// is killed between any two of them goes on at its next start as if nothing had happened.
//
// A device for one-time use is spent when a guest starts with it, in the journal first, then as a reserved amount in Placement;
// only a cleaning gives it back. A share that a guest lacks in Placement is added by a reshape, never taken.
//
// What is observed never frees a claim. A device that vanishes under its guest stays its guest's, in the journal and in
// Placement, until compute says that the server shall not be here.
//
// # Rooms
//
// Package device, survey and heal are pure: they decide, and touch nothing. Packages sysfs, uevent, journal, hook and hypervisor know one
// technology each and decide nothing. Package loop wires them, and is the only one with goroutines.
package agent

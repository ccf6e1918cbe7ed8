// Package sim simulates a cloud of about a hundred hosts with random operations, failures and restarts, and checks
// invariants after each of them.
//
// Decisions are made by production code: agent/reconcile with agent/device, agent/survey and agent/treeplan for the
// agent of each host; compute/conductor with compute/runner, compute/lifecycle and compute/schedule; compute/flavor;
// placement/candidate over placement/index; numa. Messages between agents and compute are converted by compute/record,
// and the agents' effects in Placement are performed by loop.Tree. HTTP, SQL, files and goroutines are replaced by
// simple code in memory: Placement by package placementtest, compute's database by store, and hosts by simHost with a
// hypervisor and a disk. There is no real clock and no goroutine; everything follows from a seed, so that a failure can
// be replayed.
//
//	user requests ─▶ conductor ─▶ steps ─▶ placementtest ◀─ effects ─ reconcile.State ─ effects ─▶ guests
//	                    ▲  └──────────── assignments ────────────────────▲      │
//	                    └──────────────── reports of hosts and guests ──────────┘
//
// The effects of an agent are in progress until an operation performs one of them, in any order; its result may be
// delivered later, and its answer may be lost. An agent may crash after any effect. Then each effect in progress is
// performed or not, and of a journal write the first entries may be on the disk. The next process starts on the durable
// journal.
//
// Each guest report may be lost, delayed or repeated. Each call of the conductor to its database and to Placement may
// fail, lose its answer, or be the last one of the process. Databases are restored from backups and lost, directories
// of agents are copied and lost, and the wall clock of compute jumps. A simulated operator repairs the result, host by
// host.
//
// From time to time the failures stop, and the cloud must become quiescent: then nothing may be left over. Then servers
// are created and moved: each is placed if and only if a search that tries everything finds a place on the true hosts.
//
// Each part of the cloud has a model, which has the kernel and the models that it calls. Only the operations, the
// checks and the repairs have all models. The files, from the bottom to the top: sim.go, kernel.go, random_set.go,
// exemptions.go; compute_database.go, compute_process.go, agent.go, zones.go, host.go, what they keep, and the other
// files of hosts; the models of placement.go, image.go, network.go, compute.go, hypervisor.go and agents.go, each with
// the files that begin with its name; cloud.go, all of them; true_hosts.go, true_places.go and
// varied_flavors.go; checks.go, losses.go, probes.go, repairs.go, operations.go and operation_table.go; world.go,
// quiescence.go, run.go.
package sim

// Failures that Options.Without may name beside the kinds of operations.
const (
	Crashes  = "crashes"  // of an agent, between any two effects and in each
	Messages = "messages" // of agents, lost, late or twice
	Disks    = "disks"    // of agents, that fail to write
	Answers  = "answers"  // of steps that were done, lost
	Builds   = "builds"   // of guests, that fail, lose their answer or are done too late
	Lists    = "lists"    // of guests, that lack some or all
	Foreign  = "foreign"  // writers to Placement
	Ends     = "ends"     // of the process of compute, in a call of its database or of Placement
	Ports    = "ports"    // of servers; also the kind of operation that attaches and detaches them
	Policy   = "policy"   // the kind of operation that changes the policy of a port
)

// What may be broken on purpose; each must be noticed by a check. mutation_test.go breaks production code beside these.
const (
	Lenient     = "lenient"      // Placement accepts allocations for which there is no room
	Orphans     = "orphans"      // compute does not delete the allocations of deleted servers
	Early       = "early"        // compute deletes the allocations of a guest before its agent has reported it gone
	Undead      = "undead"       // a hypervisor does not end guests
	Twice       = "twice"        // a hypervisor gives a guest the devices of others too
	Silent      = "silent"       // agents do not report that a guest is gone
	WrongDevice = "wrong device" // a hypervisor stores another provider of a device than the chosen one
	Unlooked    = "unlooked"     // agents do not read again what has changed
	Forgetful   = "forgetful"    // the journal loses claims
	Unwritten   = "unwritten"    // the journal acknowledges entries that it does not write
	Uncounted   = "uncounted"    // compute records reports of agents in the order in which they arrive

	Sweeping   = "sweeping"   // agents read that guests that the assignments do not mention are to be removed
	Backward   = "backward"   // agents do not read the position of the assignments that they have followed
	Doubles    = "doubles"    // compute admits every start of an agent
	Anyone     = "anyone"     // compute accepts guest reports of any start of an agent
	Demolish   = "demolish"   // a hypervisor does not report how often a guest was rebuilt
	Careless   = "careless"   // compute writes to Placement although guests contradict its record
	Ungated    = "ungated"    // compute goes on with what it was doing before hosts have reported
	Once       = "once"       // compute names a guest for removal once
	Unrecorded = "unrecorded" // compute forgets the guests to remove on hosts that are declared dead
	WallClock  = "wall clock" // compute judges silence by the wall clock
)

// Options are the size of a simulation, and what is left out, broken or done more often.
type Options struct {
	Seed    uint64
	Ops     int      // operations
	Hosts   int      // 0: 120
	Quiet   int      // operations after which the cloud must become quiescent; 0: 20000
	Without []string // kinds of operations and failures that are left out
	Broken  string   // what is broken on purpose; empty: nothing
	Often   string   // kind of operation that is done more often; empty: none
	Direct  bool     // most servers have ports of vnic type direct, which change often
	Groups  bool     // some servers are in server groups
	Varied  bool     // hosts have random nodes and devices of up to four kinds, and there are flavors for them
	Held    bool     // deleted servers can be restored, and shelved ones stay on their hosts for a time
}

// Report is the result of a simulation.
type Report struct {
	Seed          uint64
	Ops           int            // done
	Done          map[string]int // by kind, those that did something
	Quiescences   int
	LongestRounds int            // rounds that the longest way to a rest took
	Happened      map[string]int // what the operations led to
	Failure       string         // what is not true, or empty
}

// Kinds of operations that lose, copy or restore files, processes and time.
const (
	RestartCompute = "restart compute" // compute is restarted
	Backup         = "backup"          // compute's database is copied, or Placement's, or both
	Restore        = "restore"         // one of these copies replaces what is there
	Copy           = "copy"            // an agent's directory is copied to another machine, which tries to serve the host
	// a machine is lost, and another one with a copy of its agent's directory takes its place
	Replace = "replace"
	Jump    = "jump"   // the wall clock of compute is set
	Lose    = "lose"   // an agent's journal is lost, or compute's database, or all of them
	Forget  = "forget" // an operator has compute forget a host
)

package sim

import (
	"math/rand/v2"
	"time"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/agent/reconcile"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/compute/conductor"
	"github.com/openberth/berth/compute/flavor"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/placement/placementtest"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// World is the simulated cloud with what happens to it and what is checked of it.
type World struct {
	*cloud
	*operations
	*checks
	*repairs
}

// cloud is the models of a simulated cloud.
type cloud struct {
	*kernel
	*hostModel
	*exemptions
	placement  *placementModel
	network    *networkModel
	images     *imageModel
	compute    *computeModel
	hypervisor *hypervisorModel
	agents     *agentModel
}

// kernel is what all models share: random numbers, clocks, the log, names and the first failure.
type kernel struct {
	options    Options
	broken     string
	rng        *rand.Rand
	noFailures bool // no failures now
	next       int  // for names

	clock      time.Duration // since the simulation began; it is never set
	agentClock time.Duration // of agents, see slowness
	skew       time.Duration // by how much the wall clock of compute is wrong
	now        time.Time     // by that wall clock
	jumped     time.Duration // when the wall clock was set last
	jump       time.Duration // by how much

	n       int               // of the operation
	noted   int               // operations and what followed from them that are in the log
	ownerOf map[string]string // the server of each consumer that ever existed
	log     []entry
	failure string
	report  Report
}

// hostModel is the machines.
type hostModel struct {
	*kernel
	hosts  []*simHost
	copies []*simHost // with copied directories, beside those of hosts
	byName map[string]*simHost
	byRoot map[provider.ID]*simHost
	byTag  map[string]*simHost // also copies
	zones  []zone
	active randomSet  // tags of machines on which something is to be done
	marked []*simHost // by the present operation
}

// exemptions are what a restore or an operator has done since the last rest, and what checks therefore do not expect.
type exemptions struct {
	altered    map[string]bool // servers whose share was taken away
	putBack    map[string]bool // servers whose allocations a restore has changed
	rolledBack map[string]bool // servers whose records a restore has changed
	evacuated  map[string]bool // servers that were evacuated from a host that was out of reach
	// requests of devices of ports that were attached or detached: an agent may try a change again that compute has
	// cancelled
	portChanges map[string]bool
}

// placementModel is Placement.
type placementModel struct {
	*kernel
	*hostModel
	*exemptions
	*placementtest.Placement
	lowered          map[inventory]int    // amounts in use that exceed what agents have reported since
	restores         int                  // of its database
	cleaned          map[provider.ID]bool // their reserved amount may become smaller: their devices were cleaned
	foreignConsumers []string
}

// imageModel is the image service.
type imageModel struct {
	*kernel
	all  map[string]simImage
	lost map[string]bool // servers whose records a restore has changed: their images may be lost or left
}

// hypervisorModel is the hypervisors of all machines. They do not arbitrate devices: a guest gets those that it is
// built with.
type hypervisorModel struct {
	*kernel
	*hostModel
	*exemptions
	placement *placementModel
	images    *imageModel
	compute   *computeModel
	late      []lateBuild
	blank     int // number of blank disks that guests were given
}

// agentModel is the agents of all machines.
type agentModel struct {
	*kernel
	*hostModel
	*exemptions
	placement  *placementModel
	images     *imageModel
	compute    *computeModel
	hypervisor *hypervisorModel
	delayed    []delayedReport
	progress   bool // an agent has done something
}

// operations are the random operations.
type operations struct {
	*cloud
	*losses
	repairs *repairs
}

// losses are the operations that lose, copy or restore files, processes and time.
type losses struct {
	*cloud
	backups []backup
}

// checks are the invariants of a cloud.
type checks struct {
	*cloud
	runs map[string][]*simHost // where servers have run
}

// repairs is the simulated operator.
type repairs struct {
	*cloud
	*checks
}

// disk is the directory of an agent.
type disk struct {
	state    journal.State // as the process that has opened the journal reads it
	found    journal.State // as the next process will find it: a failed write may have left its first entries
	followed stamp         // oracle: the state of compute's database of which the newest assignments in found were
	durable  stamp         // oracle: the same of state
}

// agent is one process of the agent of a machine: the production state machine, and what it waits for. It is lost when
// the process ends.
type agent struct {
	state    *reconcile.State
	start    string          // id of the process
	sender   schedule.Sender // as it has identified itself last
	effects  []*effect       // in progress
	watch    *reconcile.Watch
	stream   *stream   // nil: none is open
	ended    bool      // the stream has ended, and the agent has not noticed it yet
	inbox    *delivery // assignments that an earlier process of compute has sent and that the agent has yet to read
	deadline time.Time // by which it must get a Tick; zero: none

	observed  int                          // oracle: restores of Placement before it has read its tree last
	unwritten bool                         // decisions are not in the journal yet
	received  bool                         // it has followed assignments
	facts     *reconcile.Observation       // of the first sync, for an agent that is broken on purpose
	followed  map[journalPosition]stamp    // oracle: of what it has followed and not yet journalled
	named     map[string]bool              // oracle: guests that the followed assignments have named for removal
	placed    map[resource.ConsumerID]bool // oracle: consumers of which it may write the allocations that it has read
	confirmed map[string]bool              // oracle: consumers of which compute has accepted a report of this process
}

// effect is an effect in progress.
type effect struct {
	reconcile.Effect
	cancelled bool
	compute   *process        // when the effect began
	named     bool            // oracle: a guest to destroy was named for removal when the effect began
	result    reconcile.Event // not delivered yet; nil: the effect is not performed
}

// journalPosition is a position in the type of the journal.
type journalPosition = journal.Position

// delivery is a message of assignments on its way to an agent.
type delivery struct {
	assignments host.Assignments
	changed     stamp // oracle: when the assignments became so
	state       stamp // oracle: of compute's database then
}

// stream is an open stream of assignments.
type stream struct {
	past   *host.Position // what compute returned of the epoch that the agent named
	read   int64          // revision of the last message; -1: none
	closed func()         // ends the stream in compute
}

// database is compute's database. A backup is a copy of it.
type database struct {
	cloud   string
	servers map[string]lifecycle.Server
	owners  map[string]string   // consumer → server
	groups  map[string][]string // request → its servers
	rows    map[string]*hostRow
	epochs  []epoch  // starts of compute on it
	dead    []string // hosts that an operator has declared dead, sorted

	leaving map[string]int // by server, how many removals of it are recorded

	versions map[string]int    // oracle: when each record was written last
	reasons  map[string]string // oracle: by server, why guests of it may be removed
	branch   int               // oracle: its history
}

// hostRow is what is stored of a host.
type hostRow struct {
	report    schedule.Host // the last one
	known     bool          // there is one
	dead      bool          // an operator says so
	revision  int64         // of its assignments
	removals  map[string]string
	epochEnds []epochEnd // in which epochs the revision rose
	changed   stamp      // oracle: when it rose last

	cleans map[pci.Address]time.Time // requests to clean devices, by when an operator has made them
}

type epoch struct {
	number int64
	id     string
}

// epochEnd is the revision at the end of an epoch.
type epochEnd struct{ epoch, revision int64 }

// removal is a guest that must be destroyed.
type removal = host.Removal

// backup is a copy of compute's database, of Placement's, or of both at the same moment.
type backup struct {
	taken     int // operation
	db        *database
	seq       int
	placement *placementtest.Placement
}

// compute is the compute service: its database, and the process that runs on it.
type computeModel struct {
	*kernel
	*hostModel
	*exemptions
	placement *placementModel
	network   *networkModel
	images    *imageModel
	aliases   pci.Aliases
	histories

	*database
	*process
	states map[string]*hostState

	ids randomSet // of servers that are not deleted
	due randomSet // of servers with steps, and of those whose last change has returned an error

	event  lifecycle.Event // that a server is being given, for the log; nil: of a step
	sender *simHost        // oracle: whose report is being stored
	guest  *guestReport    // oracle: that is being recorded
	beats  bool            // a heartbeat is being stored
}

// guestReport is a report of a guest.
type guestReport struct {
	id, start string
	host      *hostState
}

// process is one process of compute: the production conductor over the simulation's store and Placement. When it has
// ended, all its calls fail, so that nothing of its memory has an effect.
type process struct {
	*kernel
	conductor *conductor.Conductor
	epoch     epoch
	began     time.Duration
	ended     bool
	safe      bool            // no faults are injected
	late      time.Duration   // how old the heartbeat that is being stored is
	reported  <-chan struct{} // closed when the awaited hosts have reported
	awaited   []string        // hosts that may report soon after the start
	opened    bool            // the simulation has seen that reported is closed
}

// hostState is what the simulation has of one host on compute's side.
type hostState struct {
	name    string
	row     *hostRow        // in the database
	servers map[string]bool // with residences there
	line    *line           // as it was made last

	reported bool          // to the present process
	refused  bool          // the present process has refused a start of an agent
	sign     time.Duration // last report, end of a stream or start of the process

	behindSince time.Duration
	unheard     bool     // oracle: it has not reported to the database that was restored last
	served      *simHost // oracle: whose agent was admitted last
	admitted    string   // oracle: its start
}

// store gives one process of compute its database, with the rules of compute/store. Each call may fail before or after
// its effect. Deleted servers are removed at once.
type store struct {
	*computeModel
	process *process
}

// stamp is a moment in the histories of compute's database. A restore begins a new history.
type stamp struct{ branch, seq int }

// histories are the histories of compute's database.
type histories struct {
	branches []history
	seq      int // counts changes of the database
}

// history is a branch of the database's history. The first one, and that of a new database, has no parent.
type history struct{ parent stamp }

// line is what compute assigns to a host.
type line struct {
	revision int64
	servers  []host.Server
	remove   []removal
	changed  stamp // oracle: when the revision was raised
}

// simHost is one host: its hardware, its hypervisor, its disk, and the agent while it runs. A copy of an agent's
// directory runs on a machine of its own that has the same host name.
type simHost struct {
	name  string     // of the host
	tag   string     // name, or for a machine with a copied directory another one
	host  *hostState // what compute has of the host
	root  provider.ID
	zone  int
	made  []pci.Device         // all that can be plugged in
	away  map[pci.Address]bool // what is not there now
	rules []pci.Rules          // what the operator may configure; the first is the usual one, the fourth fits what is held
	flags string               // of the devices, as text of a device_spec
	rule  int
	nodes []facts.Node
	once  bool // it has devices for one-time use

	portVFs    bool                   // it has VFs for ports
	configured map[pci.Address]string // ports for which its VFs are configured
	unplugged  map[pci.Address]bool   // VFs that were unplugged since they were configured

	guests  map[string]*hypervisor.Guest // the hypervisor's
	built   map[string]bool              // oracle: guests that no report of the agent has named as built
	content map[string]int               // of the disks of guests; each blank disk has another number
	late    map[string]bool              // oracle: guests that were built after the agent had given them up
	disk    disk
	fresh   bool   // no agent has served the host with this journal
	agent   *agent // nil while it does not run
	install string // machine-id of the installed system, also in a copy of it

	cut      bool // requests of its agent to compute and Placement fail
	frozen   bool // its agent does nothing, and its connections stay open
	zombie   bool // its guests exist although their allocations may have been removed: see event_checks.go
	orphaned bool // compute may have forgotten guests that exist: see event_checks.go
	refused  int  // configurations that its agent has refused one after the other
	stuck    bool // its agent has refused to start with any configuration
}

// simImage is an image of a shelved server.
type simImage struct {
	server  string
	data    bool
	content int // of the disk, with data
}

// networkService is the network service: its ports, with the rules of package network/operations. Users create ports
// with a policy of their own too, and change policies.
type networkModel struct {
	*kernel
	*hostModel
	*exemptions
	placement *placementModel

	ports map[string]network.Port
	// inactive are the bindings of ports to the destinations of live migrations, by port and host.
	inactive map[string]map[string]network.PortBinding
	ids      []string // of ports, in the order in which they were created
	lastRead string   // the port that compute has read last
}

// entry is one operation or one change of a server, for the log.
type entry struct {
	n            int
	kind, of, at string
	text         string
	e            lifecycle.Event // that has changed the server; nil: the event of a step
	was, is      string
}

// op is a kind of operation with its share.
type op struct {
	kind  string
	share int
	do    func(*operations)
}

// inventory is a class of a provider.
type inventory struct {
	provider provider.ID
	class    resource.Class
}

// delayedReport is what an agent said, on its way.
type delayedReport struct {
	from  *simHost
	id    string
	start string // of its agent
	e     lifecycle.Report
}

// lateBuild is a request to build a guest whose answer was lost and that the hypervisor has not executed yet.
type lateBuild struct {
	at    *simHost
	guest hypervisor.Guest
}

// zone is a group of hosts with resource classes of their own, so that a query concerns few of many hosts.
type zone struct {
	aliases []string // options of [pci] alias; the zone's number ends their names
	flavors []flavor.Flavor
}

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

// networkClient is the network service as one process of compute uses it.
type networkClient struct {
	*networkModel
	process *process
}

// imageClient is the image service for one process of compute. A call may fail before or after its effect.
type imageClient struct {
	*imageModel
	process *process
}

// usualRules is how many configurations of a host there are beside the one that fits what is held.
const usualRules = 3

package reconcile

import (
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/pci"
)

// works is the work on the servers that are not reconciled. The work on one server is a sequence of attempts, and an
// attempt is a sequence of effects, one at a time: after each, next decides from the whole state which effect comes
// then. So whatever a crash ended continues at the next start.
type works struct {
	*core
	*renamer
	byID     map[string]*work
	building int // number of attempts on assigned servers whose disk is neither copied nor uploaded
	copying  int // number of those whose disk is copied from another guest, or uploaded
	restarts map[string]restarts
}

// work is the state of the work on one server until it is reconciled.
type work struct {
	id            string
	failures      int        // attempts that failed
	buildFailures int        // builds that failed in the hypervisor
	buildFailing  time.Time  // of the first of them
	retryAt       time.Time  // earliest time of the next attempt
	waitingSince  time.Time  // start of the wait for other servers to leave
	acked         host.Phase // the last phase that compute has; empty: not known
	requested     bool       // the assignment has changed since compute had the last report
	happened      string     // to the guest without a request, not yet reported
	server        string     // of the guest that was destroyed, if that has another id
	attempt       *attempt   // in progress; nil: none
}

// attempt is one attempt to reconcile a server: why it was made, and what it has done that the state of the host does
// not show.
type attempt struct {
	want      host.Server // the assignment; without an ID: none
	removal   host.Removal
	version   removalVersion
	effect    Effect // in progress, or held until the journal is written
	cancelled bool   // the assignments have changed, or are not followed any more

	verified  bool            // the allocation in Placement covers the assignment
	slots     []pci.Request   // for the I/O slots that the allocation names and the assignment does not
	claimed   bool            // compute has the claim
	destroyed map[string]bool // guests that the hypervisor has destroyed and not built since
	build     int             // rebuild count of a departed guest that was destroyed
	ready     readiness       // for the guest
	vfsReset  map[string]bool // resetKeys of VFs that were reset since guests were destroyed
	creating  bool            // the guest did not exist when its build began
	freed     bool            // the claims are freed
	departure *host.Guest     // result of a migration, not yet reported
	lateCount int             // guest reports whose number was too low
	report    reportWait
	refused
	unrequested unrequested
	final       bool // compute has the final report
}

// refused is what the hypervisor has refused in an attempt.
type refused struct {
	refusal error              // not yet reported
	listed  []hypervisor.Guest // of the hypervisor; nil: not listed
	retryIn time.Duration      // the wait before the next attempt; 0: the usual one
}

// unrequested is what an attempt does that no user and no assignment has requested.
type unrequested struct {
	why  string // the guest is changed
	late bool   // the guest has appeared after its server was removed
}

// readiness is what an attempt has done for a guest beside its build.
type readiness struct {
	vfs      bool // its VFs are configured
	received bool // the host is prepared for its arrival by live migration

	upload *host.DiskUpload // result of the last Upload, not yet reported
}

// awaitReport is the effect of an attempt that waits until compute has a host report.
type awaitReport struct{}

func (awaitReport) effect() {}

func isAwaitReport(e Effect) bool {
	_, is := e.(awaitReport)
	return is
}

// reportWait is a wait for a host report.
type reportWait struct {
	version int  // of the report that compute must have; 0: none yet
	refused bool // compute has refused it: the state of the server can be reported nevertheless
}

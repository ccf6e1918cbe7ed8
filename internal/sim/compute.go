package sim

import (
	"maps"
	"slices"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/pci"
)

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

	plans  planMemories
	event  lifecycle.Event     // that a server is being given, for the log; nil: of a step
	served map[string]*simHost // oracle: by host, whose agent was admitted last
	sender *simHost            // oracle: whose report is being stored
	guest  *guestReport        // oracle: that is being recorded
	beats  bool                // a heartbeat is being stored
}

// guestReport is a report of a guest.
type guestReport struct {
	id, start string
	host      *hostState
}

// setDatabase makes a database the present one, without starting compute on it.
func (cm *computeModel) setDatabase(db *database) {
	cm.database = db
	cm.ids, cm.due = randomSet{}, randomSet{}
	for name, h := range cm.states {
		h.row, h.servers, h.line = db.rows[name], map[string]bool{}, nil
		h.admitted = h.row.report.Start // the only one that this database has
	}
	for _, id := range slices.Sorted(maps.Keys(db.servers)) {
		cm.index(db.servers[id])
	}
}

// index adds a record to the lists by which it is found.
func (cm *computeModel) index(s lifecycle.Server) {
	if cm.due.drop(s.ID); len(s.Steps()) > 0 {
		cm.due.add(s.ID)
	}
	if cm.ids.add(s.ID); s.State == lifecycle.Deleted {
		cm.ids.drop(s.ID)
		return
	}
	for _, residence := range s.Residences() {
		if h := cm.states[residence.Host]; h != nil {
			h.servers[s.ID] = true
		}
	}
}

// retryLater notes that a change of a server has returned an error, so that the conductor may have woken it.
func (cm *computeModel) retryLater(id string, err error) {
	if _, exists := cm.servers[id]; err != nil && exists {
		cm.due.add(id)
	}
}

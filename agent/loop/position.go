package loop

import (
	"fmt"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
)

// accept reports whether the agent follows these assignments: they are of the cloud whose guests the agent has, and do
// not precede the newest ones that it followed. The new position is journalled first. Assignments that are not
// followed change nothing, and a condition gives the reason. a.mu is held.
func (a *Agent) accept(l host.Assignments) bool {
	refusal := a.otherCloud(l)
	if refusal == "" {
		if refusal = a.position().Accept(l); refusal != "" {
			refusal += "; its assignments are not followed, and guests stay as they are: restore the newest database, " +
				"or stop the agent and run `berth agent adopt`, which shows first what would change"
		}
	}
	a.setNotFollowed(refusal)
	if refusal != "" {
		return false
	}
	if err := a.writePosition(l); err != nil {
		a.log.Warn("journal write failed, will retry with the next assignments", "error", err)
		return false
	}
	return true
}

// otherCloud returns why assignments are not of the cloud that this agent follows; empty when they are. a.mu is held.
func (a *Agent) otherCloud(l host.Assignments) string {
	id, _ := a.journal.Identity()
	if l.Cloud == "" || l.Cloud == id.Cloud || id.Cloud == "" {
		return ""
	}
	return fmt.Sprintf("the assignments are those of another cloud (%s) than this host's guests (%s), so they are not "+
		"followed: "+
		"if compute's database was lost or this host has moved, stop the agent and run `berth agent adopt`", l.Cloud,
		id.Cloud)
}

// setNotFollowed records why the assignments are not followed; empty when they are. Work on guests stops while they
// are not. a.mu is held.
func (a *Agent) setNotFollowed(why string) {
	if why == "" {
		a.condition("assignments")
	} else {
		a.condition("assignments", why)
	}
	if a.notFollowed == why {
		return
	}
	a.notFollowed = why
	a.reportChanged()
	if why == "" {
		return
	}
	for _, j := range a.serverWorks {
		if j.cancel != nil {
			j.cancel()
		}
	}
}

// position returns the position of the newest assignments that were followed. a.mu is held.
func (a *Agent) position() host.Position {
	p := a.journal.State().Position()
	return host.Position{Epoch: p.Epoch, EpochID: p.EpochID, Revision: p.Revision}
}

// writePosition journals the cloud and the position of assignments that are about to be followed. a.mu is held.
func (a *Agent) writePosition(l host.Assignments) error {
	if id, _ := a.journal.Identity(); l.Cloud != "" && id.Cloud == "" {
		id.Cloud = l.Cloud
		if err := a.journal.SetIdentity(id); err != nil {
			return err
		}
	}
	if l.Position == a.position() {
		return nil
	}
	return a.journal.SetPosition(journal.Position{Epoch: l.Epoch, EpochID: l.EpochID, Revision: l.Revision})
}

package loop

import (
	"fmt"

	"github.com/openberth/berth/agent/journal"
	"github.com/openberth/berth/api/host"
)

// follows reports whether the agent follows a line: it is of the cloud whose guests the agent has, and does not precede
// the newest line that was followed. What is followed is journalled first. A line that is not followed changes nothing,
// and a condition says why. a.mu is held.
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
		a.log.Warn("journal write failed, will retry with the next line", "error", err)
		return false
	}
	return true
}

// otherCloud returns why a line is not of the cloud that this agent follows. a.mu is held.
func (a *Agent) otherCloud(l host.Assignments) string {
	id, _ := a.journal.Identity()
	if l.Cloud == "" || l.Cloud == id.Cloud || id.Cloud == "" {
		return ""
	}
	return fmt.Sprintf("the assignments are those of another cloud (%s) than this host's guests (%s), so they are not followed: "+
		"if compute's database was lost or this host has moved, stop the agent and run `berth agent adopt`", l.Cloud, id.Cloud)
}

// setBehind records why the assignments are not followed; empty when they are. Work on guests stops while they are not.
// a.mu is held.
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

// position is the newest line that was followed. a.mu is held.
func (a *Agent) position() host.Position {
	p := a.journal.State().Position()
	return host.Position{Epoch: p.Epoch, EpochID: p.EpochID, Revision: p.Revision}
}

// writePosition journals cloud and position of a line that is about to be followed. a.mu is held.
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

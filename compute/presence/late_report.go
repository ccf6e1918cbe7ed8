package presence

import "fmt"

// Late is the cause of the fault when a report of a guest is older than the last one from the same agent.
type Late struct {
	Number int64 // of the last report that was received from the agent
}

// Error returns the sentence.
func (l *Late) Error() string {
	return fmt.Sprintf("report not recorded: this agent has sent a newer report of the server, number %d; "+
		"report the present state with a larger number", l.Number)
}

package host

import (
	"context"
	"net/http"
	"time"
)

// AliveInterval is the longest time between two signs of life of an agent.
const AliveInterval = 10 * time.Second

// Alive is what an agent sends between two reports of its host. Its main loop sends it, not its connection, so it
// shows that the agent works. It also acknowledges assignments.
type Alive struct {
	Instance string   `json:"instance"` // as in Report
	Start    string   `json:"start"`
	Position Position `json:"position,omitzero"` // the newest assignments that this agent has followed
}

// PutAlive sends a sign of life of the agent of a host. It returns Conflict if another start of an agent serves the
// host, and NotFound if compute has no report of this start since compute itself started: then the report must be sent.
func (c Client) PutAlive(ctx context.Context, host string, a Alive) error {
	_, err := c.REST.Do(ctx, http.MethodPut, path(host, "alive"), a, nil)
	return err
}

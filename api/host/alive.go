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

	// ImageCache is the last known size of the copies of images on the host. Absent: the driver has none, or does not
	// know their size now.
	ImageCache *ImageCache `json:"image_cache,omitempty"`

	// Failed is why this start cannot report its host yet, as a sentence: it sends no reports, and tries again. Absent: it
	// has reported. Compute then needs the other fields of Sender too.
	Failed   string   `json:"start_failed,omitempty"`
	Previous []string `json:"previous,omitempty"`
	LockID   string   `json:"lock_id,omitempty"`
}

// ImageCache is the size of the copies of images on a host, in bytes.
type ImageCache struct {
	Bytes int64 `json:"bytes"`           // that they take on the disk
	Limit int64 `json:"limit,omitempty"` // that they may take; absent: no limit
}

// Sender returns the sender of the sign of life.
func (a Alive) Sender() Sender {
	return Sender{Instance: a.Instance, Start: a.Start, Previous: a.Previous, LockID: a.LockID}
}

// PutAlive sends a sign of life of the agent of a host. It returns Conflict if another start of an agent serves the
// host, and NotFound if compute has no report of this start since compute itself started: then the report must be sent.
func (c Client) PutAlive(ctx context.Context, host string, a Alive) error {
	_, err := c.REST.Do(ctx, http.MethodPut, path(host, "alive"), a, nil)
	return err
}

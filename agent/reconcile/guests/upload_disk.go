package guests

import (
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// uploadEnded records the result of an upload. It is reported in any case, so that users see why a server is not
// shelved yet.
func uploadEnded(w *Works, j *work, effect state.Upload, e state.WorkDone) {
	u := &host.DiskUpload{Image: effect.Image, Bytes: e.Image.Bytes, SHA512: e.Image.SHA512}
	if e.Err != nil {
		u.Error, u.Final = fault.TextOf(e.Err), !fault.Is(e.Err, fault.Unavailable)
		w.Warn("disk not uploaded", "server", j.id, "image", effect.Image, "final", u.Final, "error", e.Err)
	} else {
		w.Log("disk uploaded", "server", j.id, "image", effect.Image, "bytes", u.Bytes)
	}
	j.attempt.ready.upload = u
}

// uploadError is returned after a disk could not be uploaded and compute has the reason. The agent tries again.
type uploadError struct{ text string }

// Error returns the reason.
func (e *uploadError) Error() string { return e.text }

package guests

import (
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/reconcile/state"
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// uploadEnded records the result of an upload. It is reported in any case, so that users see why a server is not
// shelved yet.
func uploadEnded(w *Works, j *work, effect state.Upload, e state.WorkDone) {
	if effect.To.Copy {
		setUploads(w, j.id, effect.To.Image) // an observation from meanwhile may not have it
	}
	u := &host.DiskUpload{Image: effect.To.Image, Bytes: e.Image.Bytes, SHA512: e.Image.SHA512}
	if e.Err != nil {
		u.Error, u.Final = fault.TextOf(e.Err), !fault.Is(e.Err, fault.Unavailable)
		w.Warn("disk not uploaded", "server", j.id, "image", effect.To.Image, "final", u.Final, "error", e.Err)
	} else {
		w.Log("disk uploaded", "server", j.id, "image", effect.To.Image, "bytes", u.Bytes)
	}
	j.attempt.ready.upload = u
}

// leavesUpload reports whether the host has what is left of the upload of a copy of the guest's disk, and another
// upload, or none, is assigned. A guest that must stop is stopped before: that ends the copy too, and does not wait for
// storage that does not answer.
func leavesUpload(g hypervisor.Guest, want host.Server) bool {
	stops := want.Power == host.Off && !g.Stopped
	return g.Uploads != "" && g.Uploads != want.UploadTo && !stops
}

// setUploads records the image that gets a copy of a guest's disk.
func setUploads(w *Works, id, image string) {
	g := w.Guests[id]
	g.Uploads = image
	w.Guests[id] = g
	w.GuestEpoch++ // an observation from before is wrong
}

// startUpload returns the effect that uploads the disk of a guest.
func startUpload(w *Works, want host.Server) state.Effect {
	if want.Copy {
		setUploads(w, want.ID, want.UploadTo)
	}
	return state.Upload{Work: want.ID, ID: want.ID,
		To: hypervisor.Upload{Image: want.UploadTo, Copy: want.Copy, Quiesce: want.Quiesce}}
}

// uploadError is returned after a disk could not be uploaded and compute has the reason. The agent tries again.
type uploadError struct{ text string }

// Error returns the reason.
func (e *uploadError) Error() string { return e.text }

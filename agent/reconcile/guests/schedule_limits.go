package guests

import (
	"github.com/openberth/berth/api/host"
)

// slots returns how many attempts on assigned servers are made at the same time, and the limit. A disk may be copied or
// uploaded for hours; meanwhile other servers are built, started and stopped.
func slots(w *Works, want host.Server) (used *int, limit int) {
	if want.DiskFrom != nil || want.UploadTo != "" {
		return &w.copying, max(1, w.Config.Parallel/2)
	}
	return &w.Building, w.Config.Parallel
}

// worksUnderFormerID cancels the work on a guest under the former id of a removal, and reports whether it is still in
// progress. A build would otherwise create the guest again after the removal has destroyed it.
func worksUnderFormerID(w *Works, id string) bool {
	for _, former := range w.removedIDs(w.Assignments.Remove[id]) {
		if former != "" && former != id && w.cancel(former) {
			return true
		}
	}
	return false
}

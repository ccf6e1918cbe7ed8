package lifecycle

import (
	"fmt"
	"slices"
	"time"
)

// beginShelving starts to shelve the server. With an image, its disk is uploaded first; without one, the guest has no
// disk and is removed at once.
func beginShelving(s Server, e ActionRequested, now time.Time) Server {
	if e.DiskFormat == "" {
		return offload(s, "shelving; removing the guest on "+s.Host, now)
	}
	s.Task, s.ShelvedImage = ShelvingPendingUpload, &ShelvedImage{ID: e.ID, Format: e.DiskFormat}
	return addHistory(s, now, "shelving; the disk of the guest on "+s.Host+" becomes the image "+e.ID)
}

// beginCopy starts to copy the disk of the server to an image.
func beginCopy(s Server, e ActionRequested, now time.Time) Server {
	s.Task, s.ShelvedImage = ImageSnapshot, &ShelvedImage{ID: e.ID, Format: e.DiskFormat, Copy: &e.Copy}
	what := "snapshot"
	if e.Action == Backup {
		s.Task, what = ImageBackup, "backup"
	}
	return addHistory(s, now, what+" requested: the image "+e.ID+" gets a copy of the disk on "+s.Host)
}

// offload removes the guest of a server that is shelved.
func offload(s Server, text string, now time.Time) Server {
	s.State, s.Task, s.Shelved, s.ShelvedAt = Shelving, "", true, time.Time{}
	return addHistory(s, now, text)
}

// onOffloadDue removes the guest of a server that has been shelved on its host long enough.
func onOffloadDue(s Server, e OffloadDue, now time.Time) Server {
	if s.State != Active || s.Task != "" || s.ShelvedAt.IsZero() || !s.ShelvedAt.Equal(e.ShelvedAt) {
		return s // late
	}
	return offload(s, "[DEFAULT] shelved_offload_time has ended; removing the guest on "+s.Host, now)
}

// uploadsDisk reports whether the agent of Host must upload the disk of the guest.
func (s Server) uploadsDisk() bool {
	return s.State == Active && s.ShelvedImage != nil && (s.Task == ShelvingUploading || s.Task == ImageUploading)
}

// UnreportedUpload returns the image that the agent of Host may have uploaded the disk to, without a report about it,
// of a server that is shelved; empty: there is none.
func (s Server) UnreportedUpload() string {
	if !s.uploadsDisk() || s.ShelvedImage.Copy != nil || s.ShelvedImage.SHA512 != "" {
		return ""
	}
	return s.ShelvedImage.ID
}

// shelvingSteps lists the due steps of a server whose disk becomes an image.
func (s Server) shelvingSteps() []Step {
	switch {
	case s.State != Active || s.ShelvedImage == nil:
	case s.Task == ShelvingPendingUpload, s.Task == ImageSnapshot, s.Task == ImageBackup:
		return []Step{CreateImage}
	case s.uploadsDisk() && s.ShelvedImage.SHA512 != "":
		return []Step{CheckImage}
	}
	return nil
}

// onImageResult applies the result of a step that calls the image service.
func onImageResult(s Server, e Event, now time.Time) Server {
	switch e := e.(type) {
	case ImageCreated:
		if s.isDue(CreateImage) && e.ID == s.ShelvedImage.ID {
			return onImageCreated(s, now)
		}
	case ImageChecked:
		if s.isDue(CheckImage) && e.ID == s.ShelvedImage.ID {
			return onImageChecked(s, e.Keep, now)
		}
	case ImageDeleted:
		return onImageDeleted(s, e, now)
	}
	return s // late
}

// onImageCreated lets the agent upload the disk. A guest that is shelved is stopped before.
func onImageCreated(s Server, now time.Time) Server {
	if s.ShelvedImage.Copy != nil {
		s.Task = ImageUploading
		return addHistory(s, now, "the image "+s.ShelvedImage.ID+" is created; the agent of "+s.Host+" copies the disk "+
			"and uploads it")
	}
	if s.Task = ShelvingUploading; s.Power.holds() { // its memory is not kept
		s.Power = Off
	}
	return addHistory(s, now, "the image "+s.ShelvedImage.ID+" is created; the agent of "+s.Host+
		" stops the guest and uploads its disk")
}

// onDiskUpload records what the agent reports about the upload. A report about another image is late.
func onDiskUpload(s Server, u *DiskUpload, now time.Time) Server {
	if u == nil || !s.uploadsDisk() || u.Image != s.ShelvedImage.ID {
		return s
	}
	switch {
	case u.Error != "" && u.Final:
		return giveUpImage(s, u.Error, now)
	case u.Error != "":
		return addHistory(s, now, "the disk is not uploaded yet, the agent of "+s.Host+" will try again: "+u.Error)
	case u.SHA512 == "" || s.ShelvedImage.SHA512 == u.SHA512 && s.ShelvedImage.Bytes == u.Bytes:
		return s
	}
	i := *s.ShelvedImage
	i.Bytes, i.SHA512 = u.Bytes, u.SHA512
	s.ShelvedImage = &i
	return addHistory(s, now, fmt.Sprintf("the disk is uploaded: %d bytes", u.Bytes))
}

// onImageChecked ends a copy. The image service has the disk of a server that is shelved: its guest is removed, or
// stays on its host, stopped.
func onImageChecked(s Server, keep bool, now time.Time) Server {
	if s.ShelvedImage.Copy != nil {
		text := "the image " + s.ShelvedImage.ID + " has a copy of the disk"
		s.Task, s.ShelvedImage = "", nil
		return addHistory(s, now, text)
	}
	if keep {
		s.Task, s.ShelvedAt, s.Power = "", now, Off
		return addHistory(s, now, "shelved: the image "+s.ShelvedImage.ID+" has the disk, and the guest stays on "+s.Host)
	}
	return offload(s, "the image "+s.ShelvedImage.ID+" has the disk; removing the guest on "+s.Host, now)
}

// giveUpImage ends the task of an image that cannot get the disk. The image is deleted.
func giveUpImage(s Server, reason string, now time.Time) Server {
	if s.ShelvedImage.Copy == nil {
		return giveUpShelving(s, reason, now)
	}
	image := *s.ShelvedImage
	image.SHA512 = "" // it does not have the copy
	text := fmt.Sprintf("The disk on %s cannot be copied to the image %s: %s. Correct the cause and repeat the action.",
		s.Host, s.ShelvedImage.ID, trimStop(reason))
	s.ShelvedImage = &image
	s = dropShelvedImage(s)
	s.Refusal = &Fault{Code: 500, Message: text, Created: now}
	return addHistory(s, now, text)
}

// giveUpShelving ends the shelving of a server whose disk cannot become an image. The guest keeps its disk and gets the
// power state back that it had.
func giveUpShelving(s Server, reason string, now time.Time) Server {
	s = dropShelvedImage(s)
	if s.Actual == Off && s.Power == On {
		s.Task = PoweringOn
	}
	text := fmt.Sprintf("The server cannot be shelved: %s; it keeps its disk on %s. Correct the cause and repeat the "+
		"action.", trimStop(reason), s.Host)
	s.Refusal = &Fault{Code: 500, Message: text, Created: now}
	return addHistory(s, now, text)
}

// dropShelvedImage gives the image up: it is deleted in the image service, unless it has a copy of the disk. A task in
// progress that needs it ends.
func dropShelvedImage(s Server) Server {
	if s.ShelvedImage == nil {
		return s
	}
	if s.ShelvedImage.Copy == nil || s.ShelvedImage.SHA512 == "" {
		s.UnusedImages = append(slices.Clone(s.UnusedImages), s.ShelvedImage.ID)
	}
	s.ShelvedImage = nil
	switch s.Task {
	case ShelvingPendingUpload, ShelvingUploading, ImageSnapshot, ImageBackup, ImageUploading:
		s.Task = ""
	}
	return s
}

// onImageDeleted removes the image from those that must be deleted.
func onImageDeleted(s Server, e ImageDeleted, now time.Time) Server {
	i := slices.Index(s.UnusedImages, e.ID)
	if i < 0 {
		return s // late
	}
	s.UnusedImages = slices.Delete(slices.Clone(s.UnusedImages), i, i+1)
	text := "deleted the image " + e.ID
	if e.Refused != "" {
		text = "the image " + e.ID + " is not needed any more, but stays: " + trimStop(e.Refused) +
			"; an operator may delete it"
	}
	s = addHistory(s, now, text)
	return endCleanup(s, now)
}

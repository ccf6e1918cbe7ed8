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

// offload removes the guest of a server that is shelved.
func offload(s Server, text string, now time.Time) Server {
	s.State, s.Task, s.Shelved = Shelving, "", true
	return addHistory(s, now, text)
}

// uploadsDisk reports whether the agent of Host must stop the guest and upload its disk.
func (s Server) uploadsDisk() bool {
	return s.State == Active && s.Task == ShelvingUploading && s.ShelvedImage != nil
}

// UnreportedUpload returns the image that the agent of Host may have uploaded the disk to, without a report about it;
// empty: there is none.
func (s Server) UnreportedUpload() string {
	if !s.uploadsDisk() || s.ShelvedImage.SHA512 != "" {
		return ""
	}
	return s.ShelvedImage.ID
}

// shelvingSteps lists the due steps of a server whose disk becomes an image.
func (s Server) shelvingSteps() []Step {
	switch {
	case s.State != Active || s.ShelvedImage == nil:
	case s.Task == ShelvingPendingUpload:
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
			return onImageChecked(s, now)
		}
	case ImageDeleted:
		return onImageDeleted(s, e, now)
	}
	return s // late
}

// onImageCreated lets the agent stop the guest and upload its disk.
func onImageCreated(s Server, now time.Time) Server {
	s.Task = ShelvingUploading
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
		return giveUpShelving(s, u.Error, now)
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

// onImageChecked removes the guest: the image service has its disk.
func onImageChecked(s Server, now time.Time) Server {
	return offload(s, "the image "+s.ShelvedImage.ID+" has the disk; removing the guest on "+s.Host, now)
}

// giveUpShelving ends the shelving of a server whose disk cannot become an image. The guest keeps its disk and gets the
// power state back that it had.
func giveUpShelving(s Server, reason string, now time.Time) Server {
	s = dropShelvedImage(s)
	if s.Stopped && s.Power == On {
		s.Task = PoweringOn
	}
	text := fmt.Sprintf("The server cannot be shelved: %s; it keeps its disk on %s. Correct the cause and repeat the "+
		"action.", trimStop(reason), s.Host)
	s.Refusal = &Fault{Code: 500, Message: text, Created: now}
	return addHistory(s, now, text)
}

// dropShelvedImage gives the image up: it is deleted in the image service. A shelving in progress ends.
func dropShelvedImage(s Server) Server {
	if s.ShelvedImage == nil {
		return s
	}
	s.UnusedImages = append(slices.Clone(s.UnusedImages), s.ShelvedImage.ID)
	if s.ShelvedImage = nil; s.Task == ShelvingPendingUpload || s.Task == ShelvingUploading {
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

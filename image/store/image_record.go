// Package store keeps images as files in a directory. An image ID has up to three files, and a deleted one has one:
//
//	ID.json      its record
//	ID.data      its data, if its status is active or deactivated
//	ID.partial   the data received so far, while it is uploaded
//	ID.deleted   empty: the id is not used again
//
// Every file is complete or absent after a crash: it is written under another name, synced, and renamed. One process at
// a time may have the directory open; the caller locks it.
package store

import (
	"maps"
	"slices"
	"time"

	"github.com/openberth/berth/diskimage"
)

// Status is the state of an image, with Glance's words.
type Status string

// The states. An image with status Saving or Importing when the process starts is Queued again, or Uploading if its
// data is staged; what was received of it is kept.
const (
	Queued      Status = "queued"    // it has no data yet
	Saving      Status = "saving"    // its data is being received
	Uploading   Status = "uploading" // its data is being staged, or is staged: an import makes it the image's
	Importing   Status = "importing" // its data is being checked, or read from a web server
	Active      Status = "active"
	Deactivated Status = "deactivated" // only an administrator may download it
)

// Image is the record of one image.
type Image struct {
	Version int    `json:"version"` // of this format: recordVersion
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"`
	Owner   string `json:"owner"` // project
	Status  Status `json:"status"`

	Visibility string            `json:"visibility"`        // public, community, shared or private
	Members    map[string]Member `json:"members,omitempty"` // by project
	Protected  bool              `json:"protected,omitempty"`
	Hidden     bool              `json:"hidden,omitempty"`
	Tags       []string          `json:"tags,omitempty"` // sorted

	DiskFormat      diskimage.Format  `json:"disk_format,omitempty"`
	ContainerFormat string            `json:"container_format,omitempty"`
	MinDiskGB       int               `json:"min_disk,omitempty"` // GiB
	MinRAMMB        int               `json:"min_ram,omitempty"`  // MiB
	Properties      map[string]string `json:"properties,omitempty"`

	Data           // zero until the image has its data
	Staged bool    `json:"staged,omitempty"` // the whole data is received, and not yet imported
	Import *Import `json:"import,omitempty"` // the last one; nil: none

	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Member is a project that an image is shared with.
type Member struct {
	Status  string    `json:"status"` // pending, accepted or rejected
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Data describes the data of an image.
type Data struct {
	Size        int64  `json:"size,omitempty"`         // in bytes
	VirtualSize int64  `json:"virtual_size,omitempty"` // in bytes, of the disk that a guest sees
	MD5         string `json:"md5,omitempty"`
	SHA512      string `json:"sha512,omitempty"`
}

// The states of an import, with the words of Glance's tasks.
const (
	ImportRuns      = "processing"
	ImportSucceeded = "success"
	ImportFailed    = "failure"
)

// Import is an import of the data of an image. Clients see it as a task.
type Import struct {
	ID      string    `json:"id"`
	Method  string    `json:"method"`        // glance-direct or web-download
	URI     string    `json:"uri,omitempty"` // of a web-download
	User    string    `json:"user"`
	Project string    `json:"project"`
	Request string    `json:"request"` // the request id
	Status  string    `json:"status"`
	Message string    `json:"message,omitempty"` // why it has failed
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
}

// recordVersion is the version of the records that this program writes. It reads no others.
const recordVersion = 1

// clone returns a copy that shares nothing with i.
func (i Image) clone() Image {
	i.Members, i.Properties = maps.Clone(i.Members), maps.Clone(i.Properties)
	i.Tags = slices.Clone(i.Tags)
	if i.Import != nil {
		last := *i.Import
		i.Import = &last
	}
	return i
}

// HasData reports whether the image has its data.
func (i Image) HasData() bool { return i.Status == Active || i.Status == Deactivated }

// Package backup copies the durable state of the services and the agent of a machine while they run, and puts a copy
// back when they do not. `berth backup` and `berth restore` use it.
//
// A backup is a directory with a file or directory for each part, and backup.json, which has their sizes and sums. It
// is complete or it does not exist: it is made under another name and renamed at the end.
//
// The files, from the bottom to the top: backup.go, files.go, programs.go, make.go, restore.go.
package backup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Name is the name of a part.
type Name string

// The parts.
const (
	Journal   Name = "journal" // of the agent
	Placement Name = "placement"
	Compute   Name = "compute"
	Network   Name = "network"
	Images    Name = "images"
)

// Part is a part of the state of a machine.
type Part struct {
	Name     Name
	Path     string         // of the journal, the directory of images or the database file; empty: a database server
	Database sqldb.Location // of a database
}

// Where returns the place of the part, for people.
func (p Part) Where() string { return p.where() }

// isDatabase reports whether the part is a database.
func (p Part) isDatabase() bool { return p.Name == Placement || p.Name == Compute || p.Name == Network }

// where returns the place of the part, for people.
func (p Part) where() string {
	if p.Path != "" {
		return p.Path
	}
	return "database " + p.Database.Database + " on " + p.Database.Host
}

// manifestFile is the name of the manifest in a backup.
const manifestFile = "backup.json"

// formatVersion is the version of the manifests that this program writes. It reads no others.
const formatVersion = 1

// Manifest describes a backup.
type Manifest struct {
	Version int       `json:"version"`
	Made    time.Time `json:"made"`
	Berth   string    `json:"berth"` // version of the program
	Host    string    `json:"host"`
	Parts   []Stored  `json:"parts"`
}

// Stored is a part in a backup.
type Stored struct {
	Name  Name            `json:"name"`
	From  string          `json:"from"`
	Kind  sqldb.Dialect   `json:"database,omitempty"`
	Files map[string]File `json:"files"` // by path in the backup
	// Tables of a database of a server. A restore deletes only these.
	Tables []string `json:"tables,omitempty"`
}

// File describes a file of a backup.
type File struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// size returns the bytes of all files of a part.
func (s Stored) size() (bytes int64) {
	for _, f := range s.Files {
		bytes += f.Size
	}
	return bytes
}

// names returns the names of all parts, for people.
func (m Manifest) names() string {
	var names []string
	for _, s := range m.Parts {
		names = append(names, string(s.Name))
	}
	return strings.Join(names, ", ")
}

// Read returns the manifest of a backup. It does not check the files. The fault is Invalid if the directory has no
// complete backup.
func Read(dir string) (m Manifest, err error) {
	data, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return m, fault.New(fault.Invalid, "%s is not a complete backup: %w; name a directory that `berth backup` has made",
			dir, err)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fault.New(fault.Invalid, "%s in %s is not readable: %w; use another backup", manifestFile, dir, err)
	}
	if m.Version != formatVersion {
		return m, fault.New(fault.Invalid, "the backup %s has the format %d, this program reads %d; use the program that "+
			"made it (%s)", dir, m.Version, formatVersion, m.Berth)
	}
	return m, nil
}

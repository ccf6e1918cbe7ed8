// Package upgrade checks whether this program can continue with the state of the services and the agent of a machine,
// before it replaces the program that runs. `berth upgrade check` uses it.
//
// Databases in files are copied while they are used; the copies are migrated and read. Databases of servers are read
// where they are. Nothing of the machine's state is written.
//
// The files, from the bottom to the top: report.go, space.go, processes.go, databases.go, check.go.
package upgrade

import (
	"fmt"
	"io"

	"github.com/openberth/berth/internal/backup"
)

// Report is the result of a check.
type Report struct {
	Program   string    `json:"program"` // version of this program
	Ready     bool      `json:"ready"`   // there are no problems
	Problems  []string  `json:"problems"`
	Parts     []Part    `json:"parts"`
	Options   []string  `json:"options"` // those that have no effect or are deprecated, with their places
	Processes []Process `json:"processes"`
	Space     Space     `json:"space"`
	Notes     []string  `json:"notes"` // what was not checked, and why
}

// NewReport returns a report without results.
func NewReport(program string) Report {
	return Report{Program: program, Problems: []string{}, Parts: []Part{}, Options: []string{}, Processes: []Process{},
		Notes: []string{}}
}

// Part is the result for a part of the state.
type Part struct {
	Name       backup.Name `json:"name"`
	From       string      `json:"from"`
	Before     string      `json:"schema_before,omitempty"` // version of the schema
	After      string      `json:"schema_after,omitempty"`  // after this program has started on it
	Records    int         `json:"records"`                 // that were decoded
	Unreadable []string    `json:"unreadable"`              // records that this program cannot decode
	Error      string      `json:"error,omitempty"`         // why the part cannot be checked, or not be used
}

// Process is a process that uses a part.
type Process struct {
	PID     int         `json:"pid"`
	Name    string      `json:"name"`
	Part    backup.Name `json:"part"`
	Program string      `json:"program"`    // path of its program, and what Go has recorded of its version
	Same    bool        `json:"same_build"` // it runs this program
}

// Space is the space for a backup before the upgrade, in bytes.
type Space struct {
	Dir    string `json:"dir"`
	Needed int64  `json:"needed"`
	Free   int64  `json:"free"`
}

// maxNamed is how many records that cannot be decoded a text names for each part.
const maxNamed = 20

// Print writes the report as text.
func (r Report) Print(out io.Writer) error {
	text := "checked with " + r.Program + "\n"
	add := func(format string, args ...any) { text += fmt.Sprintf(format, args...) + "\n" }
	for _, p := range r.Parts {
		if p.Error != "" {
			add("%s: %s: not usable, see the problem below", p.Name, p.From)
			continue
		}
		schema := ""
		if p.Before != "" {
			schema = ": schema " + p.Before
			if p.After != p.Before {
				schema += ", then " + p.After
			}
		}
		add("%s: %s%s: records read: %d, unreadable: %d", p.Name, p.From, schema, p.Records, len(p.Unreadable))
		for i, sentence := range p.Unreadable {
			if i == maxNamed {
				add("  and %d more; -o json has all", len(p.Unreadable)-i)
				break
			}
			add("  %s", sentence)
		}
	}
	for _, p := range r.Processes {
		build := "another build than this one"
		if p.Same {
			build = "this build"
		}
		add("process %d (%s) uses %s: %s, %s", p.PID, p.Name, p.Part, p.Program, build)
	}
	for _, sentence := range r.Options {
		add("option: %s", sentence)
	}
	add("a backup takes about %d bytes; %s has %d free", r.Space.Needed, r.Space.Dir, r.Space.Free)
	for _, sentence := range r.Notes {
		add("note: %s", sentence)
	}
	for _, sentence := range r.Problems {
		add("problem: %s", sentence)
	}
	if r.Ready {
		add("ready for an upgrade to this program")
	}
	_, err := io.WriteString(out, text)
	return err
}

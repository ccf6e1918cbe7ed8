package shadow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/shadow/difference"
)

// Report is what was compared since the file of the report was created. The process counts in memory and writes the
// file every few seconds: a killed process loses what it counted since then, and no difference.
type Report struct {
	Original    string       `json:"original"` // the URL
	Since       time.Time    `json:"since"`
	Until       time.Time    `json:"until"`
	Forwarded   int64        `json:"forwarded"`
	Equal       int64        `json:"equal"`
	Known       Counts       `json:"known"`        // equal except these known differences, by ID
	NotCompared Counts       `json:"not_compared"` // reads by the reason why they were not compared
	Unlisted    int64        `json:"unlisted"`     // differences beyond maxListed
	Differences []Difference `json:"differences"`
}

// Counts are numbers by a name.
type Counts map[string]int64

// Difference is a difference between the answers that was confirmed by asking both again.
type Difference struct {
	Kind     string    `json:"kind"` // equal for differences of the same request form at the same place
	Count    int64     `json:"count"`
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	Target   string    `json:"target"`   // of the first request
	Smallest string    `json:"smallest"` // what is left of it without the parameters that do not matter
	Version  string    `json:"version"`  // the header openstack-api-version
	Lines    []string  `json:"differences"`
	Original Excerpt   `json:"original_answer"` // to Smallest
	Berth    Excerpt   `json:"berth_answer"`
}

// Excerpt is the beginning of an answer.
type Excerpt struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

// maxListed is the number of kinds of differences in a report, and maxExcerpt the length of a body in bytes.
const (
	maxListed  = 200
	maxExcerpt = 4096
)

func excerptOf(a difference.Answer) Excerpt {
	text := string(a.Body)
	if len(text) > maxExcerpt {
		text = text[:maxExcerpt] + "…"
	}
	return Excerpt{Status: a.Status, Body: strings.ToValidUTF8(text, "\uFFFD")}
}

// recorder counts, and writes the report. It is safe for concurrent use.
type recorder struct {
	path string
	lock *os.File // locked until close
	now  func() time.Time

	mu      sync.Mutex
	report  Report
	changed bool
	writing sync.Mutex // one write at a time
}

// newRecorder continues the report in a file, which need not exist.
func newRecorder(path, original string, now func() time.Time) (*recorder, error) {
	r := &recorder{path: path, now: now, changed: true,
		report: Report{Original: original, Since: now().UTC(), Known: Counts{}, NotCompared: Counts{}}}
	var err error
	if r.lock, err = lockReport(path); err != nil {
		return nil, err
	}
	if err := r.resume(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// lockReport locks a report for one process, until the file is closed or the process ends. The lock is on a file beside
// the report, because each write replaces the report.
func lockReport(path string) (*os.File, error) {
	path += ".lock"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot lock the report: %w; choose another file with --report", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fault.New(fault.Conflict, "cannot lock %s: another `berth placement shadow` writes this "+
			"report; stop it, or choose another file with --report", path), f.Close())
	case err != nil:
		return nil, errors.Join(fault.New(fault.Unavailable, "cannot lock %s: %w; choose another file with --report", path,
			err), f.Close())
	}
	return f, nil
}

// resume continues what is in the file, and writes it: a directory that cannot be written is found at the start.
func (r *recorder) resume() error {
	before, err := ReadReport(r.path)
	switch {
	case fault.Is(err, fault.NotFound):
	case err != nil:
		return err
	case before.Original != r.report.Original:
		return fault.New(fault.Invalid, "cannot continue the report %s: it is of %s; choose another file with --report",
			r.path, before.Original)
	default:
		r.report = before
	}
	return r.write()
}

// close unlocks the report.
func (r *recorder) close() error { return r.lock.Close() }

// ReadReport reads the file of a report. A file that does not exist is fault.NotFound.
func ReadReport(path string) (Report, error) {
	r := Report{}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fault.New(fault.NotFound, "cannot read the report: %w; give the file that `berth placement shadow` "+
			"writes", err)
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && r.Original == "" {
		err = errors.New("it has no member original")
	}
	if err != nil {
		return r, fault.New(fault.Invalid, "cannot read the report %s: %w; give the file that `berth placement shadow` "+
			"writes", path, err)
	}
	if r.Known == nil {
		r.Known = Counts{}
	}
	if r.NotCompared == nil {
		r.NotCompared = Counts{}
	}
	return r, nil
}

func (r *recorder) count(change func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.report)
	r.changed = true
}

// forwarded counts an answered request.
func (r *recorder) forwarded() { r.count(func(p *Report) { p.Forwarded++ }) }

// notCompared counts a read that was not compared, for a reason.
func (r *recorder) notCompared(reason string) { r.count(func(p *Report) { p.NotCompared[reason]++ }) }

// equal counts a read whose answers differ in nothing but what is known.
func (r *recorder) equal(known []string) {
	r.count(func(p *Report) {
		p.Equal++
		for _, id := range known {
			p.Known[id]++
		}
	})
}

// repeat counts one more difference of a kind. It returns how many there were before, 0 for a new kind.
func (r *recorder) repeat(kind string) (before int64) {
	r.count(func(p *Report) {
		for i := range p.Differences {
			if d := &p.Differences[i]; d.Kind == kind {
				before = d.Count
				d.Count, d.Last = d.Count+1, r.now().UTC()
			}
		}
	})
	return before
}

// listed returns how many differences of a kind there were.
func (r *recorder) listed(kind string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.report.Differences {
		if d.Kind == kind {
			return d.Count
		}
	}
	return 0
}

// add adds a difference of a new kind.
func (r *recorder) add(d Difference) {
	d.Count, d.First = 1, r.now().UTC()
	d.Last = d.First
	r.count(func(p *Report) {
		if len(p.Differences) == maxListed {
			p.Unlisted++
			return
		}
		p.Differences = append(p.Differences, d)
	})
}

// unlisted reports whether the list is full, and counts a difference then that is not listed.
func (r *recorder) unlisted() (full bool) {
	r.count(func(p *Report) {
		if full = len(p.Differences) == maxListed; full {
			p.Unlisted++
		}
	})
	return full
}

// state returns a copy of the counts. Its Differences must not be changed.
func (r *recorder) state() Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.report
	p.Known, p.NotCompared = maps.Clone(p.Known), maps.Clone(p.NotCompared)
	p.Differences = slices.Clone(p.Differences)
	p.Until = r.now().UTC()
	return p
}

// write writes the report if it has changed.
func (r *recorder) write() error {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	changed := r.changed
	r.changed = false
	r.mu.Unlock()
	if !changed {
		return nil
	}
	text, err := json.MarshalIndent(r.state(), "", "  ")
	if err == nil {
		err = datafile.Replace(r.path, append(text, '\n'))
	}
	if err != nil {
		r.count(func(*Report) {}) // it is still to be written
		return fault.New(fault.Unavailable, "cannot write the report %s: %w; choose another file with --report", r.path,
			err)
	}
	return nil
}

// Print writes a report for people.
func (p Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	row("original:\t%s", p.Original)
	row("from:\t%s\nuntil:\t%s", p.Since.Format(time.DateTime), p.Until.Format(time.DateTime))
	row("requests forwarded:\t%d\nreads with equal answers:\t%d", p.Forwarded, p.Equal)
	for _, id := range slices.Sorted(maps.Keys(p.Known)) {
		row("  with the known difference %q:\t%d", id, p.Known[id])
	}
	var different, skipped int64
	for _, d := range p.Differences {
		different += d.Count
	}
	for _, n := range p.NotCompared {
		skipped += n
	}
	row("reads with different answers:\t%d", different+p.Unlisted)
	row("reads not compared:\t%d", skipped)
	for _, reason := range slices.Sorted(maps.Keys(p.NotCompared)) {
		row("  %s:\t%d", reason, p.NotCompared[reason])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, d := range p.Differences {
		fmt.Fprintf(out, "\n%d. GET %s\n   openstack-api-version: %s\n", i+1, d.Smallest, orNone(d.Version))
		if d.Smallest != d.Target {
			fmt.Fprintf(out, "   first seen with: GET %s\n", d.Target)
		}
		fmt.Fprintf(out, "   %d times, from %s until %s\n", d.Count, d.First.Format(time.DateTime),
			d.Last.Format(time.DateTime))
		for _, line := range d.Lines {
			fmt.Fprintf(out, "   - %s\n", line)
		}
		fmt.Fprintf(out, "   the original: %d %s\n   Berth:        %d %s\n", d.Original.Status,
			strings.TrimSpace(d.Original.Body), d.Berth.Status, strings.TrimSpace(d.Berth.Body))
	}
	_, err := fmt.Fprintln(out)
	return err
}

func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return text
}

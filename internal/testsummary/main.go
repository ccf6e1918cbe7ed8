// Command testsummary reads the output of go test -json from its standard input. It prints one line for each package,
// the output of what failed, and at the end the failed tests with the first line of each of their messages, and which
// tests were left to `make check`, counted by their reason. Its exit status is 1 when anything failed or no test ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/openberth/berth/internal/testenv"
)

// event is a line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build-output
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

func main() {
	s := newSummary(os.Stdout)
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(2)
	}
	if !s.finish() {
		os.Exit(1)
	}
}

// summary is the state of a run of go test.
type summary struct {
	out     io.Writer
	output  map[string]*strings.Builder // of each package and test that has not passed
	left    map[string]map[string]bool  // the tests that were left to make check, by their reason
	skipped []string                    // tests that were skipped for another reason
	passed  int                         // tests
	failed  []failure                   // packages and tests
}

// failure is a package or test that failed.
type failure struct {
	name     string
	messages []string // the last ones, without what follows their first line
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: map[string]*strings.Builder{}, left: map[string]map[string]bool{}}
}

// read reads all events of a run.
func (s *summary) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil { // go failed and wrote plain text
			fmt.Fprintln(s.out, lines.Text())
			s.failed = append(s.failed, failure{name: "go test"})
			continue
		}
		s.take(e)
	}
	return lines.Err()
}

func (s *summary) take(e event) {
	key := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		if s.output[key] == nil {
			s.output[key] = &strings.Builder{}
		}
		s.output[key].WriteString(e.Output)
	case "skip":
		s.skip(e, s.output[key])
		delete(s.output, key)
	case "pass":
		if e.Test == "" {
			fmt.Fprintf(s.out, "ok    %s  %.1fs\n", e.Package, e.Elapsed)
		} else {
			s.passed++
		}
		delete(s.output, key)
	case "fail", "build-fail":
		s.fail(e, key)
	}
}

// skip records a test that was skipped, or a package without tests.
func (s *summary) skip(e event, output *strings.Builder) {
	if e.Test == "" {
		return
	}
	text := ""
	if output != nil {
		text = output.String()
	}
	name := e.Package + " " + e.Test
	_, reason, ours := strings.Cut(text, testenv.Prefix)
	if !ours {
		s.skipped = append(s.skipped, name)
		return
	}
	reason, _, _ = strings.Cut(reason, "\n")
	if s.left[reason] == nil {
		s.left[reason] = map[string]bool{}
	}
	s.left[reason][name] = true
}

func (s *summary) fail(e event, key string) {
	name := strings.TrimSpace(key)
	if e.Action == "build-fail" {
		name = e.ImportPath
	}
	output := ""
	if b := s.output[key]; b != nil {
		output = b.String()
	}
	s.failed = append(s.failed, failure{name, messages(output)})
	fmt.Fprintf(s.out, "FAIL  %s\n%s", name, output)
	delete(s.output, key)
}

// A message begins with the place in a test, or is one of Go's own.
var messageStart = regexp.MustCompile(`^\s*\w+_test\.go:\d+: |^panic: |^fatal error: |^WARNING: DATA RACE`)

const (
	maxMessages      = 12
	maxMessageLength = 300
)

// messages returns the first lines of the last messages in the output of a test. The whole output may have thousands of
// lines of logs, and a reader of the end of a run needs to see what failed.
func messages(output string) []string {
	var list []string
	for line := range strings.Lines(output) {
		if messageStart.MatchString(line) {
			line = strings.TrimSpace(line)
			list = append(list, line[:min(len(line), maxMessageLength)])
		}
	}
	return list[max(0, len(list)-maxMessages):]
}

// finish prints the end of the summary and reports whether nothing failed.
func (s *summary) finish() bool {
	fmt.Fprintf(s.out, "\n%d tests passed, %d failed", s.passed, len(s.failed))
	for _, f := range s.failed {
		fmt.Fprintf(s.out, "\n  failed: %s", f.name)
		for _, message := range f.messages {
			fmt.Fprintf(s.out, "\n    %s", message)
		}
	}
	if len(s.skipped) > 0 {
		fmt.Fprintf(s.out, "\n%d tests were skipped:", len(s.skipped))
		for _, name := range s.skipped {
			fmt.Fprintf(s.out, "\n  %s", name)
		}
	}
	fmt.Fprintln(s.out)
	if len(s.left) > 0 {
		fmt.Fprintln(s.out, "not run here; `make check` runs them:")
		for _, reason := range slices.Sorted(maps.Keys(s.left)) {
			packages := map[string]bool{}
			for name := range s.left[reason] {
				p, _, _ := strings.Cut(name, " ")
				packages[strings.TrimPrefix(p, "github.com/openberth/berth/")] = true
			}
			fmt.Fprintf(s.out, "  %3d tests: %s (%s)\n", len(s.left[reason]), reason,
				strings.Join(slices.Sorted(maps.Keys(packages)), ", "))
		}
	}
	return len(s.failed) == 0 && s.passed > 0
}

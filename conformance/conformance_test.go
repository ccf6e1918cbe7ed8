package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	lanes = flag.Int("lanes", 2, "how many pairs of servers play at the same time")
	sweep = flag.Int("sweep", 2, "play each written sequence at the newest and at every n-th older microversion: "+
		"another n-th for each; 1: at all")
	report = flag.String("report", "", "write what was found to this file")
	berth  = flag.String("berth", os.Getenv("BERTH_CONFORMANCE_BINARY"), "a berth that is built already; default: build "+
		"it from this tree")
	checks = flag.Int("checks", 40, "how many random sequences, and how many random worlds")
	seed   = flag.Uint64("seed", 1, "of the random sequences and worlds; 0: another one each time")
)

// free holds the pairs that nobody plays on.
var (
	free  chan *Pair
	tally Tally
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		code = 1
	}
	os.Exit(code)
}

// run starts the pairs, runs the tests and ends the pairs.
func run(m *testing.M) (code int, err error) {
	if *seed != 0 {
		if err := flag.Set("rapid.seed", fmt.Sprint(*seed)); err != nil {
			return 1, err
		}
	}
	if err := flag.Set("rapid.nofailfile", "true"); err != nil {
		return 1, err
	}
	if err := flag.Set("rapid.checks", fmt.Sprint(*checks)); err != nil {
		return 1, err
	}
	dir, err := scratch()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	program := *berth
	if program == "" && !testing.Short() {
		program = filepath.Join(dir, "berth")
		build := exec.Command("go", "build", "-o", program, "./cmd/berth")
		build.Dir = ".."
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("go build ./cmd/berth: %w\n%s", err, out)
		}
	}
	rules, err := readRules()
	if err != nil {
		return 1, err
	}
	if testing.Short() { // borrow skips what needs a pair
		*lanes = 0
	}
	free = make(chan *Pair, *lanes)
	for lane := range *lanes {
		pair, err := startPair(context.Background(), program, filepath.Join(dir, fmt.Sprint(lane)), rules)
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, pair.Original.Stop(), pair.Berth.Stop()) }()
		free <- pair
	}
	code = m.Run()
	fmt.Println("conformance:", &tally)
	return code, nil
}

// scratch makes a directory for the databases, in memory where there is such a place: nothing here must survive.
func scratch() (string, error) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return os.MkdirTemp("/dev/shm", "conformance")
	}
	return os.MkdirTemp("", "conformance")
}

func startPair(ctx context.Context, program, dir string, rules Rules) (*Pair, error) {
	p := &Pair{Rules: rules, Tally: &tally}
	for _, side := range []string{"original", "berth"} {
		if err := os.MkdirAll(filepath.Join(dir, side), 0o700); err != nil {
			return nil, err
		}
	}
	var err error
	if p.Original, err = StartOriginal(ctx, filepath.Join(dir, "original")); err != nil {
		return nil, err
	}
	if p.Berth, err = StartBerth(ctx, program, filepath.Join(dir, "berth")); err != nil {
		return nil, errors.Join(err, p.Original.Stop())
	}
	return p, nil
}

func readRules() (Rules, error) {
	const file = "testdata/exceptions.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ParseRules(file, string(text))
}

// needOriginal skips the test under -short: there are no pairs then. The text is that of internal/testenv.
func needOriginal(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make check: needs OpenStack's Placement")
	}
}

// borrow takes a pair with empty worlds for a test.
func borrow(t testing.TB) *Pair {
	t.Helper()
	needOriginal(t)
	p := <-free
	t.Cleanup(func() { free <- p })
	if err := p.Reset(); err != nil {
		t.Fatal(err)
	}
	return p
}

// written reads testdata's sequences, and the worlds they use.
func written(t *testing.T) (sequences []Sequence, worlds map[string][]Step) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	worlds = map[string][]Step{}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "exceptions.txt" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found, err := Parse(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		if name != "worlds.txt" {
			sequences = append(sequences, found...)
			continue
		}
		for _, w := range found {
			worlds[w.Name] = w.Steps
		}
	}
	return sequences, worlds
}

func TestWritten(t *testing.T) {
	sequences, worlds := written(t)
	if len(sequences) < 10 {
		t.Fatalf("only %d sequences", len(sequences))
	}
	needOriginal(t)
	for i, seq := range sequences {
		before, ok := worlds[seq.Uses]
		if !ok && seq.Uses != "" {
			t.Fatalf("%s: %s uses %q, which is not in worlds.txt", seq.File, seq.Name, seq.Uses)
		}
		t.Run(strings.TrimSuffix(seq.File, ".txt")+"/"+strings.ReplaceAll(seq.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			var findings []Finding
			for _, versions := range rounds(seq, i) {
				findings = append(findings, playOnce(t, seq, before, versions)...)
			}
			tell(t, findings)
		})
	}
}

// rounds lists the microversions that a sequence is played at, round by round: all in one for a sequence that reads.
func rounds(seq Sequence, number int) [][]int {
	var all []int
	for v := seq.From; v <= seq.To; v++ {
		if (v+number)%*sweep == 0 || v == seq.To {
			all = append(all, v)
		}
	}
	if seq.Each {
		return [][]int{all}
	}
	return slices.Collect(slices.Chunk(all, 1))
}

func playOnce(t *testing.T, seq Sequence, before []Step, versions []int) []Finding {
	p := <-free
	defer func() { free <- p }()
	if err := p.Reset(); err != nil {
		t.Fatal(err)
	}
	findings, err := p.Play(seq, before, versions...)
	if err != nil {
		t.Errorf("%s at %v: %v", seq.Name, versions, err)
	}
	return findings
}

// tell reports findings: each request once, with the microversions at which it was answered differently.
func tell(t *testing.T, findings []Finding) {
	t.Helper()
	type place struct {
		line  int
		diffs string
	}
	at := map[place][]string{}
	for _, f := range findings {
		key := place{f.Line, strings.Join(f.Diffs, "\n")}
		at[key] = append(at[key], f.Version)
	}
	for _, f := range findings {
		key := place{f.Line, strings.Join(f.Diffs, "\n")}
		if at[key][0] != f.Version {
			continue
		}
		f.Version = strings.Join(slices.Compact(at[key]), " ")
		t.Error(f)
		if *report != "" {
			out, err := os.OpenFile(*report, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(out, "%s\n\n", f)
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

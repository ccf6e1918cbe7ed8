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
	pairs = flag.Int("lanes", 2, "number of pairs of servers that run at the same time")
	sweep = flag.Int("sweep", 2, "play each sequence at the newest and at every n-th older microversion, "+
		"with different offsets; 1: at all")
	report = flag.String("report", "", "also write the differences to this file")
	berth  = flag.String("berth", os.Getenv("BERTH_CONFORMANCE_BINARY"), "berth program to test; default: build "+
		"it from this tree")
	checks = flag.Int("checks", 40, "number of random sequences and of random worlds")
	seed   = flag.Uint64("seed", 1, "seed of the random sequences and worlds; 0: a new one at each run")
)

// freePairs contains the pairs that no test uses.
var (
	freePairs chan *Pair
	counts    Counts
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
	dir, err := tempDir()
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
	if testing.Short() { // takePair skips tests that need a pair
		*pairs = 0
	}
	freePairs = make(chan *Pair, *pairs)
	for lane := range *pairs {
		pair, err := startPair(context.Background(), program, filepath.Join(dir, fmt.Sprint(lane)), rules)
		if err != nil {
			return 1, err
		}
		defer func() { err = errors.Join(err, pair.Original.Stop(), pair.Berth.Stop()) }()
		freePairs <- pair
	}
	code = m.Run()
	fmt.Println("conformance:", &counts)
	return code, nil
}

// tempDir creates a directory for the databases, in memory if possible: the data need not be durable.
func tempDir() (string, error) {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return os.MkdirTemp("/dev/shm", "conformance")
	}
	return os.MkdirTemp("", "conformance")
}

// startPair starts both servers of a pair.
func startPair(ctx context.Context, program, dir string, rules Rules) (*Pair, error) {
	p := &Pair{Rules: rules, Counts: &counts}
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

// readRules reads testdata/exceptions.txt.
func readRules() (Rules, error) {
	const file = "testdata/exceptions.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return ParseRules(file, string(text))
}

// needOriginal skips the test with -short, because there are no pairs then. The text is that of internal/testenv.
func needOriginal(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left to make check: needs OpenStack's Placement")
	}
}

// takePair reserves a pair for a test and empties its databases.
func takePair(t testing.TB) *Pair {
	t.Helper()
	needOriginal(t)
	p := <-freePairs
	t.Cleanup(func() { freePairs <- p })
	if err := p.Reset(); err != nil {
		t.Fatal(err)
	}
	return p
}

// readSequences reads the sequences in testdata and the worlds they use.
func readSequences(t *testing.T) (sequences []Sequence, worlds map[string][]Step) {
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

func TestSequences(t *testing.T) {
	sequences, worlds := readSequences(t)
	if len(sequences) < 10 {
		t.Fatalf("only %d sequences", len(sequences))
	}
	needOriginal(t)
	for i, seq := range sequences {
		before, ok := worlds[seq.Uses]
		if !ok && seq.Uses != "" {
			t.Fatalf("%s: %s uses the unknown world %q; add it to worlds.txt", seq.File, seq.Name, seq.Uses)
		}
		t.Run(strings.TrimSuffix(seq.File, ".txt")+"/"+strings.ReplaceAll(seq.Name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			var findings []Finding
			for _, versions := range rounds(seq, i) {
				findings = append(findings, playOnce(t, seq, before, versions)...)
			}
			reportFindings(t, findings)
		})
	}
}

// rounds returns the microversions at which a sequence is played, one list per world: a sequence with EachVersion uses
// one world for all of them.
func rounds(seq Sequence, number int) [][]int {
	var all []int
	for v := seq.From; v <= seq.To; v++ {
		if (v+number)%*sweep == 0 || v == seq.To {
			all = append(all, v)
		}
	}
	if seq.EachVersion {
		return [][]int{all}
	}
	return slices.Collect(slices.Chunk(all, 1))
}

// playOnce plays a sequence on any pair.
func playOnce(t *testing.T, seq Sequence, before []Step, versions []int) []Finding {
	p := <-freePairs
	defer func() { freePairs <- p }()
	if err := p.Reset(); err != nil {
		t.Fatal(err)
	}
	findings, err := p.Play(seq, before, versions...)
	if err != nil {
		t.Errorf("%s at %v: %v", seq.Name, versions, err)
	}
	return findings
}

// reportFindings fails the test for each finding. It reports a request once, with all microversions at which the
// answers have the same differences.
func reportFindings(t *testing.T, findings []Finding) {
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

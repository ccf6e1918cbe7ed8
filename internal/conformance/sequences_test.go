package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
		if name == "comparison_exceptions.txt" {
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
		if name != "starting_worlds.txt" {
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
			t.Fatalf("%s: %s uses the unknown world %q; add it to starting_worlds.txt", seq.File, seq.Name, seq.Uses)
		}
		t.Run(seq.testName(), func(t *testing.T) {
			t.Parallel()
			var findings []Finding
			for _, versions := range rounds(seq, i, *sweep) {
				p := <-freePairs
				findings = append(findings, playOnce(t, p, seq, before, versions)...)
				freePairs <- p
			}
			reportFindings(t, findings)
		})
	}
}

// testName returns the name of the subtest that plays a sequence.
func (s Sequence) testName() string {
	return strings.TrimSuffix(s.File, ".txt") + "/" + strings.ReplaceAll(s.Name, " ", "-")
}

// rounds returns the microversions at which a sequence is played, the newest and every n-th older one, one list per
// world: a sequence with EachVersion uses one world for all of them.
func rounds(seq Sequence, number, every int) [][]int {
	var all []int
	for v := seq.From; v <= seq.To; v++ {
		if (v+number)%every == 0 || v == seq.To {
			all = append(all, v)
		}
	}
	if seq.EachVersion {
		return [][]int{all}
	}
	return slices.Collect(slices.Chunk(all, 1))
}

// playOnce plays a sequence on a pair.
func playOnce(t *testing.T, p *Pair, seq Sequence, before []Step, versions []int) []Finding {
	t.Helper()
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

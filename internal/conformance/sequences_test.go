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

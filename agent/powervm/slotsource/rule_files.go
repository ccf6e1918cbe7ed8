package slotsource

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/fault"
)

// ruleFiles are the inventory files and the rules in force.
type ruleFiles struct {
	paths    []string
	texts    [][]byte // as read last; nil: the file is missing
	rules    inventoryfile.Rules
	valid    bool                    // rules are those of files that were valid once
	refused  error                   // of the files as read last; nil: they are in force
	overlaps []inventoryfile.Problem // of the files as read last, with the present slots
}

// invalidFiles are the errors of the files.
type invalidFiles struct{ problems []inventoryfile.Problem }

// Error returns the first error and the number of further ones.
func (f *invalidFiles) Error() string {
	if len(f.problems) == 1 {
		return f.problems[0].String()
	}
	return fmt.Sprintf("%s (and %d more errors; `berth agent check` lists all)", f.problems[0], len(f.problems)-1)
}

// Problems lists the sentences of a fault of Check or Load; none for another error.
func Problems(err error) (sentences []string) {
	if f, ok := errors.AsType[*invalidFiles](err); ok {
		for _, p := range f.problems {
			sentences = append(sentences, p.String())
		}
	}
	return sentences
}

// Load reads and parses inventory files, the later ones with priority. A missing file has no paragraphs. The fault is
// Invalid for files with errors, and Unavailable for a file that exists and cannot be read.
func Load(paths []string) (inventoryfile.Rules, error) {
	f := ruleFiles{paths: paths}
	return f.load()
}

// load reads all files and parses them.
func (f *ruleFiles) load() (rules inventoryfile.Rules, err error) {
	texts, err := readFiles(f.paths)
	if err != nil {
		return rules, err
	}
	f.texts = texts
	return parseFiles(f.paths, texts)
}

// accept puts rules into force.
func (f *ruleFiles) accept(rules inventoryfile.Rules) { f.rules, f.valid, f.refused = rules, true, nil }

// refresh puts changed files into force, if they are valid and allow no slot twice. Otherwise the last valid ones stay
// in force, and the problem says why. The fault is that of the files if none were valid before.
func (f *ruleFiles) refresh(system ioslot.System) ([]facts.Problem, error) {
	texts, err := readFiles(f.paths)
	switch {
	case err != nil:
		f.refused, f.texts = err, nil // parse them when they can be read again
	case f.valid && f.refused == nil && sameTexts(texts, f.texts):
		return nil, nil
	case f.refused == nil || !sameTexts(texts, f.texts) || len(f.overlaps) > 0:
		f.texts = texts
		f.judge(texts, system)
	}
	if f.refused == nil {
		return nil, nil
	}
	if !f.valid {
		return nil, f.refused
	}
	sentences := Problems(f.refused)
	if len(sentences) == 0 {
		sentences = []string{fault.TextOf(f.refused)}
	}
	var list []facts.Problem
	for _, sentence := range sentences {
		list = append(list, facts.Problem{Name: "inventory file", Sentence: sentence +
			"; the last valid version stays in force"})
	}
	return list, nil
}

// missing reports that no file exists. One of several may be missing, such as that of a host without exceptions.
func (f *ruleFiles) missing() []facts.Problem {
	if len(f.texts) == 0 || slices.ContainsFunc(f.texts, func(text []byte) bool { return text != nil }) {
		return nil
	}
	return []facts.Problem{{Name: "inventory file", Sentence: strings.Join(f.paths, " and ") +
		" does not exist, so no slot is offered; write it, or correct [powervm] inventory_files"}}
}

// judge puts the files into force or records why not. Overlaps at the start are judged with the whole plan.
func (f *ruleFiles) judge(texts [][]byte, system ioslot.System) {
	f.overlaps = nil
	rules, err := parseFiles(f.paths, texts)
	if err == nil && f.valid {
		if _, f.overlaps = rules.DecideAll(system.Slots); len(f.overlaps) > 0 {
			err = fault.New(fault.Invalid, "slotsource.Read", "%w", &invalidFiles{f.overlaps})
		}
	}
	if err != nil {
		f.refused = err
		return
	}
	f.accept(rules)
}

// readFiles reads the files; a missing one is nil.
func readFiles(paths []string) ([][]byte, error) {
	texts := make([][]byte, len(paths))
	for i, path := range paths {
		text, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fault.New(fault.Unavailable, "slotsource.Load", "the inventory file cannot be read: %w; let this user "+
				"read it", err)
		default:
			texts[i] = append([]byte{}, text...)
		}
	}
	return texts, nil
}

// parseFiles parses all files and merges them.
func parseFiles(paths []string, texts [][]byte) (inventoryfile.Rules, error) {
	var layers []inventoryfile.File
	var problems []inventoryfile.Problem
	for i, path := range paths {
		if texts[i] == nil {
			continue
		}
		file, wrong := inventoryfile.Parse(path, texts[i])
		layers, problems = append(layers, file), append(problems, wrong...)
	}
	if len(problems) > 0 {
		return inventoryfile.Rules{}, fault.New(fault.Invalid, "slotsource.Load", "%w", &invalidFiles{problems})
	}
	return inventoryfile.Merge(layers...), nil
}

func sameTexts(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if (a[i] == nil) != (b[i] == nil) || !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

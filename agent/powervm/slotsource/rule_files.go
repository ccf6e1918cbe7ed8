package slotsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/agent/powervm/inventoryfile"
	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/fault"
)

// ruleFiles are the inventory files and the rules in force.
type ruleFiles struct {
	patterns []string
	read     []inventoryText // as read last
	rules    inventoryfile.Rules
	valid    bool                    // rules are those of files that were valid once
	refused  error                   // of the files as read last; nil: they are in force
	overlaps []inventoryfile.Problem // of the files as read last, with the present slots
}

// inventoryText is one file; text is nil if it does not exist.
type inventoryText struct {
	path string
	text []byte
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
	f := ruleFiles{patterns: paths}
	return f.load()
}

// load reads all files and parses them.
func (f *ruleFiles) load() (rules inventoryfile.Rules, err error) {
	read, err := readFiles(f.patterns)
	if err != nil {
		return rules, err
	}
	f.read = read
	return parseFiles(read)
}

// accept puts rules into force.
func (f *ruleFiles) accept(rules inventoryfile.Rules) { f.rules, f.valid, f.refused = rules, true, nil }

// refresh puts changed files into force, if they are valid and allow no slot twice. Otherwise the last valid ones stay
// in force, and the problem says why. The fault is that of the files if none were valid before.
func (f *ruleFiles) refresh(system ioslot.System) ([]facts.Problem, error) {
	read, err := readFiles(f.patterns)
	switch {
	case err != nil:
		f.refused, f.read = err, nil // parse them when they can be read again
	case f.valid && f.refused == nil && sameTexts(read, f.read):
		return nil, nil
	case f.refused == nil || !sameTexts(read, f.read) || len(f.overlaps) > 0:
		f.read = read
		f.judge(read, system)
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
	if len(f.read) == 0 || slices.ContainsFunc(f.read, func(one inventoryText) bool { return one.text != nil }) {
		return nil
	}
	return []facts.Problem{{Name: "inventory file", Sentence: strings.Join(f.patterns, " and ") +
		" does not exist, so no slot is offered; write it, or correct [powervm] inventory_files"}}
}

// judge puts the files into force or records why not. Overlaps at the start are judged with the whole plan.
func (f *ruleFiles) judge(read []inventoryText, system ioslot.System) {
	f.overlaps = nil
	rules, err := parseFiles(read)
	if err == nil && f.valid {
		if _, f.overlaps = rules.DecideAll(system.Slots); len(f.overlaps) > 0 {
			err = fault.New(fault.Invalid, "%w", &invalidFiles{f.overlaps})
		}
	}
	if err != nil {
		f.refused = err
		return
	}
	f.accept(rules)
}

// Expand returns the files that paths name, in their order. A path with *, ? or [ names all files that match it,
// sorted, or itself if none does. A file that several paths name has the place of the last one.
func Expand(paths []string) (files []string) {
	for _, path := range paths {
		matches := []string{path}
		if strings.ContainsAny(path, "*?[") {
			if found, err := filepath.Glob(path); err == nil && len(found) > 0 {
				matches = found
			}
		}
		for _, match := range matches {
			files = append(slices.DeleteFunc(files, func(f string) bool { return f == match }), match)
		}
	}
	return files
}

// readFiles reads the files that patterns name.
func readFiles(patterns []string) (list []inventoryText, err error) {
	for _, path := range Expand(patterns) {
		text, err := readFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			text = nil
		case err != nil:
			return nil, fault.New(fault.Unavailable, "the inventory file cannot be read: %w; let this user "+
				"read it", err)
		}
		list = append(list, inventoryText{path, text})
	}
	return list, nil
}

// longestFile is the size in bytes from which on a file is not read; Parse refuses smaller ones already.
const longestFile = 16 << 20

// readFile reads a regular file. Another one, such as a FIFO, could hang or have no end, and is refused.
func readFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO is opened without a writer
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file but %s", path, info.Mode().Type())
	case info.Size() > longestFile:
		return nil, fmt.Errorf("%s is longer than %d bytes", path, longestFile)
	}
	text, err := io.ReadAll(io.LimitReader(file, longestFile))
	return append([]byte{}, text...), err
}

// parseFiles parses all files and merges them. A file of 0 bytes is an error: it is what a failed copy or a full disk
// leaves, and would withdraw all slots.
func parseFiles(read []inventoryText) (inventoryfile.Rules, error) {
	var layers []inventoryfile.File
	var problems []inventoryfile.Problem
	for _, one := range read {
		switch {
		case one.text == nil:
			continue
		case len(bytes.TrimSpace(one.text)) == 0:
			problems = append(problems, inventoryfile.Problem{At: inventoryfile.Position{File: one.path},
				Sentence: "the file is empty, perhaps because writing it failed; write {} if it must allow nothing"})
			continue
		}
		file, wrong := inventoryfile.Parse(one.path, one.text)
		layers, problems = append(layers, file), append(problems, wrong...)
	}
	if len(problems) > 0 {
		return inventoryfile.Rules{}, fault.New(fault.Invalid, "%w", &invalidFiles{problems})
	}
	return inventoryfile.Merge(layers...), nil
}

func sameTexts(a, b []inventoryText) bool {
	return slices.EqualFunc(a, b, func(a, b inventoryText) bool {
		return a.path == b.path && (a.text == nil) == (b.text == nil) && bytes.Equal(a.text, b.text)
	})
}

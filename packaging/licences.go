package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	licenseclassifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// licence is the terms of a module that a binary contains.
type licence struct {
	module string
	ids    []string // of SPDX
	texts  []string // of its files
}

// accepted are the licences that a module may have: they permit a binary under Apache-2.0 without further conditions
// than that their texts accompany it.
var accepted = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "0BSD",
	"blessing"}

// termsFile matches the names of files with terms.
var termsFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|copyright|notice|patents)([-.].*)?$`)

// licences returns the terms of the modules of the binary of an architecture and of Go's own library, in the order of
// the binary. It is an error if a module has no terms, or terms that are not accepted.
func (b *build) licences(arch string) ([]licence, error) {
	if known := b.terms[arch]; known != nil {
		return known, nil
	}
	path, err := b.binary(arch)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	root, err := command(b.dir, settled, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs, err := b.moduleDirs(info.Deps)
	if err != nil {
		return nil, err
	}
	known, err := assets.DefaultClassifier() // takes seconds
	if err != nil {
		return nil, err
	}
	std, err := termsOf(known, "std", strings.TrimSpace(string(root)))
	if err != nil {
		return nil, err
	}
	all := []licence{std}
	for _, module := range info.Deps {
		terms, err := termsOf(known, module.Path, dirs[module.Path])
		if err != nil {
			return nil, err
		}
		all = append(all, terms)
	}
	b.terms[arch] = all
	return all, nil
}

// moduleDirs returns where Go keeps the files of modules, by their paths.
func (b *build) moduleDirs(modules []*debug.Module) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, module := range modules {
		args = append(args, module.Path+"@"+module.Version)
	}
	out, err := command(b.dir, settled, "go", args...)
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var module struct{ Path, Dir string }
		if err := decoder.Decode(&module); err != nil {
			return nil, fmt.Errorf("go mod download -json: %w", err)
		}
		dirs[module.Path] = module.Dir
	}
	return dirs, nil
}

// termsOf reads the terms of a module in a directory.
func termsOf(known *licenseclassifier.Classifier, module, dir string) (licence, error) {
	terms := licence{module: module}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return terms, err
	}
	for _, entry := range entries {
		if entry.IsDir() || !termsFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return terms, err
		}
		terms.texts = append(terms.texts, strings.TrimSpace(string(text))+"\n")
		for _, match := range known.Match(text).Matches {
			if match.MatchType == "License" && !slices.Contains(terms.ids, match.Name) {
				terms.ids = append(terms.ids, match.Name)
			}
		}
	}
	slices.Sort(terms.ids)
	if len(terms.ids) == 0 {
		return terms, fmt.Errorf("module %s: no known licence in %s; read its terms, and replace the module if they do not "+
			"permit a binary under Apache-2.0", module, dir)
	}
	for _, id := range terms.ids {
		if !slices.Contains(accepted, id) {
			return terms, fmt.Errorf("module %s: its licence %s is not accepted (%s); replace the module", module, id,
				strings.Join(accepted, ", "))
		}
	}
	return terms, nil
}

// notices returns the document that accompanies the binary of an architecture: each text once, with the modules to
// which it applies.
func (b *build) notices(arch string) ([]byte, error) {
	all, err := b.licences(arch)
	if err != nil {
		return nil, err
	}
	modules, order := map[string][]string{}, []string{}
	for _, one := range all {
		for _, text := range one.texts {
			if modules[text] == nil {
				order = append(order, text)
			}
			modules[text] = append(modules[text], one.module)
		}
	}
	var out bytes.Buffer
	out.WriteString("Berth contains Go's standard library (std) and these modules, under the terms that follow.\n")
	for _, text := range order {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s", strings.Repeat("=", 80), strings.Join(modules[text], "\n"), text)
	}
	return out.Bytes(), nil
}

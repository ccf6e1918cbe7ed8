package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/openberth/berth/fault"
)

// maxFileBytes is the length in bytes of the longest policy file that is read.
const maxFileBytes = 4 << 20

// listFiles replaces directories by the files in them. seen describes the size and time of each file, to detect a
// change.
func listFiles(paths []string) (files []string, seen string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, "", unreadable(path, err)
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		inside, err := os.ReadDir(path)
		if err != nil {
			return nil, "", unreadable(path, err)
		}
		for _, one := range inside {
			name := filepath.Join(path, one.Name())
			if info, err := os.Stat(name); strings.HasPrefix(one.Name(), ".") || err == nil && info.IsDir() {
				continue
			}
			files = append(files, name)
		}
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return nil, "", unreadable(file, err)
		}
		seen += fmt.Sprintf("%q %d %d\n", file, info.Size(), info.ModTime().UnixNano())
	}
	return files, seen, nil
}

func unreadable(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "policy file %s does not exist", path)
	}
	return fault.New(fault.Invalid, "policy file cannot be read: %w; give Berth's user the right to "+
		"read it, or set [oslo_policy] policy_file to another", err)
}

func readFile(path string) ([]entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(text) > maxFileBytes {
		return nil, fault.New(fault.Invalid, "policy file %s is longer than %d bytes", path, maxFileBytes)
	}
	return parseFile(path, text)
}

// rawEntry is one entry of a file before it is parsed. value is a string, a list, or nil for null; problem is
// the reason why it is not valid.
type rawEntry struct {
	name    string
	line    int
	value   any
	problem string
}

// parseFile parses a policy file: one mapping from names to rules, as JSON or YAML. It may be empty.
func parseFile(path string, text []byte) (entries []entry, err error) {
	var raws []rawEntry
	if json.Valid(text) {
		raws, err = fromJSON(text)
	} else {
		raws, err = fromYAML(text)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "policy file %s: %w", path, err)
	}
	for _, r := range raws {
		place := fmt.Sprintf("%s:%d", path, r.line)
		if r.problem != "" {
			return nil, invalid(place, r.name, "%s", r.problem)
		}
		var check Check
		switch value := r.value.(type) {
		case string:
			check, err = Parse(value)
		case []any:
			check, err = ParseList(value)
		default:
			err = errors.New(`it has no value, which would allow all requests; write "@" for that, or "!" to allow none`)
		}
		if err != nil {
			return nil, invalid(place, r.name, "%w", err)
		}
		entries = append(entries, entry{r.name, place, check})
	}
	return entries, nil
}

const notRule = "it is not a rule; write text in quotes, or a list"

func fromJSON(text []byte) (raws []rawEntry, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	open, err := d.Token()
	if err != nil || open == nil {
		return nil, err
	}
	if open != json.Delim('{') {
		return nil, errors.New("it is not a mapping from names to rules")
	}
	line, counted := 1, int64(0)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		line += bytes.Count(text[counted:d.InputOffset()], []byte("\n"))
		counted = d.InputOffset()
		r := rawEntry{name: name.(string), line: line}
		if err := d.Decode(&r.value); err != nil {
			return nil, err
		}
		switch r.value.(type) {
		case string, []any, nil:
		default:
			r.problem = notRule
		}
		raws = append(raws, r)
	}
	return raws, nil
}

func fromYAML(text []byte) ([]rawEntry, error) {
	var documents []*yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for len(documents) < 2 {
		var document yaml.Node
		err := loader.Load(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, &document)
	}
	if len(documents) == 2 {
		return nil, fmt.Errorf("a second document begins at line %d; one file is one mapping", documents[1].Line)
	}
	if len(documents) == 0 || len(documents[0].Content) == 0 {
		return nil, nil
	}
	root := documents[0].Content[0]
	if root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		return nil, nil
	}
	return mapping(root, 0)
}

// mapping returns a mapping's entries. The entries merged by << come first; the mapping's own entries override them.
func mapping(node *yaml.Node, depth int) (raws []rawEntry, err error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode || depth > 10 {
		return nil, fmt.Errorf("line %d is not a mapping from names to rules", node.Line)
	}
	var own []rawEntry
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		if key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			merged, err := merge(value, depth)
			if err != nil {
				return nil, err
			}
			raws = append(raws, merged...)
			continue
		}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			return nil, fmt.Errorf("line %d: the name of a rule is not text; write it in quotes", key.Line)
		}
		r := rawEntry{name: key.Value, line: key.Line}
		r.value, r.problem = valueOf(value, 0)
		own = append(own, r)
	}
	return append(without(raws, own), own...), nil
}

// without removes the rules that are also in others.
func without(raws, others []rawEntry) []rawEntry {
	return slices.DeleteFunc(raws, func(r rawEntry) bool {
		return slices.ContainsFunc(others, func(other rawEntry) bool { return other.name == r.name })
	})
}

// merge returns the entries of the value of <<: a mapping or a list of mappings, of which earlier ones override later
// ones.
func merge(value *yaml.Node, depth int) (raws []rawEntry, err error) {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	sources := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		sources = value.Content
	}
	for _, source := range sources {
		merged, err := mapping(source, depth+1)
		if err != nil {
			return nil, err
		}
		raws = append(without(merged, raws), raws...)
	}
	return raws, nil
}

// valueOf returns a rule's value, or the reason why it is not valid.
func valueOf(node *yaml.Node, depth int) (value any, odd string) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node.Kind == yaml.SequenceNode && depth < 2:
		elements := []any{}
		for _, inner := range node.Content {
			element, odd := valueOf(inner, depth+1)
			if odd != "" {
				return nil, odd
			}
			elements = append(elements, element)
		}
		return elements, ""
	case node.Kind != yaml.ScalarNode:
	case node.ShortTag() == "!!null":
		return nil, ""
	case node.ShortTag() == "!!str" && node.Value == "" && node.Style&^yaml.TaggedStyle == 0:
		// A bare ! is a YAML tag with an empty value, which would allow all requests.
		return nil, `a bare ! is not text in YAML; write "!" in quotes`
	case node.ShortTag() == "!!str":
		return node.Value, ""
	}
	return nil, notRule
}

// invalid returns a fault Invalid about a rule, with its place and name.
func invalid(place, name, format string, args ...any) error {
	reason := fmt.Errorf(format, args...)
	return fault.New(fault.Invalid, "%s: rule %q: %w", place, name, reason)
}

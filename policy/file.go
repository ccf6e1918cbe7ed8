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

// longestFile is how much of a policy file is read, in bytes. A longer one is no policy.
const longestFile = 4 << 20

// list resolves directories to the files in them. Seen changes when one of the files does.
func list(paths []string) (files []string, seen string, err error) {
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
		return fault.New(fault.NotFound, "policy", "policy file %s does not exist", path)
	}
	return fault.New(fault.Invalid, "policy", "policy file cannot be read: %w; let the user that Berth runs as "+
		"read it, or name another as [oslo_policy] policy_file", err)
}

func readFile(path string) ([]entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, longestFile+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	if len(text) > longestFile {
		return nil, fault.New(fault.Invalid, "policy", "policy file %s is longer than %d bytes", path, longestFile)
	}
	return parseFile(path, text)
}

// raw is one entry of a file before it is judged: value is a string, a list, or nil for nothing at all; odd says what
// else it is.
type raw struct {
	name  string
	line  int
	value any
	odd   string
}

// parseFile reads a policy file: one mapping from names to rules, as JSON or YAML. An empty one is no error.
func parseFile(path string, text []byte) (entries []entry, err error) {
	var raws []raw
	if json.Valid(text) {
		raws, err = fromJSON(text)
	} else {
		raws, err = fromYAML(text)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "policy", "policy file %s: %w", path, err)
	}
	for _, r := range raws {
		place := fmt.Sprintf("%s:%d", path, r.line)
		if r.odd != "" {
			return nil, invalid(place, r.name, "%s", r.odd)
		}
		check := Check{constant(true)}
		switch value := r.value.(type) {
		case string:
			check, err = Parse(value)
		case []any:
			check, err = ParseList(value)
		}
		if err != nil {
			return nil, invalid(place, r.name, "%w", err)
		}
		entries = append(entries, entry{r.name, place, check})
	}
	return entries, nil
}

const notRule = "it is no rule: write text in quotes, or a list"

func fromJSON(text []byte) (raws []raw, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	open, err := d.Token()
	if err != nil || open == nil {
		return nil, err
	}
	if open != json.Delim('{') {
		return nil, errors.New("it is no mapping from names to rules")
	}
	line, counted := 1, int64(0)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		line += bytes.Count(text[counted:d.InputOffset()], []byte("\n"))
		counted = d.InputOffset()
		r := raw{name: name.(string), line: line}
		if err := d.Decode(&r.value); err != nil {
			return nil, err
		}
		switch r.value.(type) {
		case string, []any, nil:
		default:
			r.odd = notRule
		}
		raws = append(raws, r)
	}
	return raws, nil
}

func fromYAML(text []byte) ([]raw, error) {
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

// mapping lists a mapping's entries. What << merges comes first, so that the mapping's own entries count.
func mapping(node *yaml.Node, depth int) (raws []raw, err error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.Kind != yaml.MappingNode || depth > 10 {
		return nil, fmt.Errorf("line %d is no mapping from names to rules", node.Line)
	}
	var own []raw
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
			return nil, fmt.Errorf("line %d: the name of a rule is no text; write it in quotes", key.Line)
		}
		r := raw{name: key.Value, line: key.Line}
		r.value, r.odd = valueOf(value, 0)
		own = append(own, r)
	}
	return append(without(raws, own), own...), nil
}

// without leaves out the rules that others have as well.
func without(raws, others []raw) []raw {
	return slices.DeleteFunc(raws, func(r raw) bool {
		return slices.ContainsFunc(others, func(other raw) bool { return other.name == r.name })
	})
}

// merge lists what stands behind <<: a mapping, or several of which the first counts.
func merge(value *yaml.Node, depth int) (raws []raw, err error) {
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

// valueOf takes a rule's value out of the tree.
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
		// A bare ! is YAML's mark of a tag, and the value behind it is empty, which would allow all.
		return nil, `a bare ! is not text in YAML; write "!" in quotes`
	case node.ShortTag() == "!!str":
		return node.Value, ""
	}
	return nil, notRule
}

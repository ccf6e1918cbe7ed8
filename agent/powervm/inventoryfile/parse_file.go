// Package inventoryfile parses the operator's YAML file of the I/O slots that guests may have, and applies it to slots.
//
//	V100 in the first drawer:
//	  identification: {vendor_id: 10DE, device_id: 1DB1, drc_name: U78CB.001.WZS06S2-*}
//	  resource_class: CUSTOM_GPU
//	  traits: [CUSTOM_NVLINK]
//	not the one of the console:
//	  identification: {drc_index: 21010010}
//	  allow: false
//
// Values are the text that is written: 1014, 0020, 1E10 and NO are never numbers or booleans. Parse returns all errors
// at once, each with file, line and column. The rules, such as R9, are in docs/behaviour/powervm-ioslots.md. The
// package does no I/O.
package inventoryfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/resource"
)

// DefaultPath is the path of the file in the specification.
const DefaultPath = "/etc/nova/inventory.yaml"

// DefaultClass is the resource class of slots whose paragraph names none.
const DefaultClass resource.Class = "CUSTOM_IOSLOT"

// maxBytes is the length of the longest file.
const maxBytes = 1 << 20

// Position is a place in a file. Line and column begin at 1; 0 means the whole file.
type Position struct {
	File         string
	Line, Column int
}

// String returns file:line:column.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is an error of a file: what is wrong, why, and what to write instead.
type Problem struct {
	At       Position
	Sentence string
}

// String returns the position and the sentence.
func (p Problem) String() string { return p.At.String() + ": " + p.Sentence }

// File is a parsed file.
type File struct {
	Name       string
	Paragraphs []Paragraph // in the order of the file
	Warnings   []Problem   // about values that are valid
}

// Paragraph names slots, and says how guests may have them.
type Paragraph struct {
	Name       string // free text, unique in its file
	At         Position
	Conditions []Condition      // a slot must meet all
	Deny       bool             // allow: false
	Class      resource.Class   // "": the file names none
	Traits     []resource.Trait // sorted
}

// String names the paragraph and its position.
func (p Paragraph) String() string { return fmt.Sprintf("%q (%s)", p.Name, p.At) }

// Condition is one key of identification.
type Condition struct {
	Key   ioslot.Key
	Value string // the text in the file; * and ? are wildcards as far as the key allows them
}

// Parse reads a file. name is its path, for positions. An empty file has no paragraphs. With problems, in the order of
// the file, the File must not be used: a file with an error is refused whole (R40).
func Parse(name string, text []byte) (File, []Problem) {
	p := parser{file: File{Name: name}}
	if len(text) > maxBytes {
		p.add(nil, "the file is longer than %d bytes; use fewer paragraphs, with wildcards", maxBytes)
		return p.file, p.problems
	}
	root, ok := p.load(text)
	if !ok || root == nil {
		return p.file, p.problems
	}
	if root.Kind != yaml.MappingNode {
		p.add(root, "the file is %s; write a mapping from names of paragraphs to paragraphs", kindOf(root))
		return p.file, p.problems
	}
	for _, e := range p.entries(root, "the file") {
		p.paragraph(e)
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int {
		if a.At.Line != b.At.Line {
			return a.At.Line - b.At.Line
		}
		return a.At.Column - b.At.Column
	})
	return p.file, p.problems
}

// parser collects the paragraphs and the problems of one file.
type parser struct {
	file     File
	problems []Problem
}

func (p *parser) at(n *yaml.Node) Position {
	if n == nil {
		return Position{File: p.file.Name}
	}
	return Position{File: p.file.Name, Line: n.Line, Column: n.Column}
}

func (p *parser) add(n *yaml.Node, format string, args ...any) {
	p.problems = append(p.problems, Problem{At: p.at(n), Sentence: fmt.Sprintf(format, args...)})
}

// load returns the root of the only document, nil for a file without content. ok is false for a syntax error.
func (p *parser) load(text []byte) (root *yaml.Node, ok bool) {
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		p.add(nil, "the file is not valid YAML: %v", err)
		return nil, false
	}
	for documents := 0; ; documents++ {
		var document yaml.Node
		err := loader.Load(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.addSyntaxError(err)
			return nil, false
		}
		if documents > 0 {
			p.add(&document, "a second document begins here; write one document a file")
			return nil, false
		}
		if len(document.Content) > 0 {
			root = document.Content[0]
		}
	}
	if root != nil && root.Kind == yaml.ScalarNode && root.ShortTag() == "!!null" {
		root = nil
	}
	return root, true
}

func (p *parser) addSyntaxError(err error) {
	at, text := p.at(nil), err.Error()
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		text = e.Message
		if e.Mark.Line > 0 {
			at.Line, at.Column = e.Mark.Line, max(e.Mark.Column, 1)
		}
	}
	p.problems = append(p.problems, Problem{At: at,
		Sentence: "the file is not valid YAML: " + text + "; correct the line, or the one before it"})
}

// entry is a key of a mapping, with its value.
type entry struct {
	key   string
	at    *yaml.Node // the key
	value *yaml.Node // aliases resolved
	place *yaml.Node // where the value is written
}

// entries returns the entries of a mapping. A key that is not text, or that occurs twice, is a problem: YAML libraries
// differ in which of two equal keys counts.
func (p *parser) entries(mapping *yaml.Node, where string) (list []entry) {
	first := map[string]int{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key := resolve(mapping.Content[i])
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			p.add(mapping.Content[i], "%s has a key that is not text; write a name", where)
			continue
		}
		if line, twice := first[key.Value]; twice {
			p.add(mapping.Content[i], "%s has the key %q twice, first in line %d; rename or remove one", where, key.Value,
				line)
			continue
		}
		first[key.Value] = mapping.Content[i].Line
		list = append(list, entry{key: key.Value, at: mapping.Content[i], value: resolve(mapping.Content[i+1]),
			place: mapping.Content[i+1]})
	}
	return list
}

// resolve returns the node that an alias refers to.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// kindOf describes a node in a message.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if n.ShortTag() == "!!null" && n.Style == 0 {
			return "empty"
		}
		return fmt.Sprintf("the text %q", shorten(n.Value))
	}
	return "not a value"
}

// shorten truncates a text for a message.
func shorten(text string) string {
	const longest = 64
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "…"
}

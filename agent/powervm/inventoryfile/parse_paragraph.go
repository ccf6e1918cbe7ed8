package inventoryfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/openberth/berth/agent/powervm/ioslot"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/resource"
)

// The keys of a paragraph.
const (
	identificationKey = "identification"
	allowKey          = "allow"
	classKey          = "resource_class"
	traitsKey         = "traits"
)

// agentTrait marks providers of PCI devices. An agent would take a slot with it for one of these.
const agentTrait = "COMPUTE_MANAGED_PCI_DEVICE"

// deviceClasses are the standard classes that count devices; slots cannot be units of any other (C13).
var deviceClasses = []resource.Class{"FPGA", "PCI_DEVICE", "PGPU", "VGPU"}

// paragraph reads one paragraph.
func (p *parser) paragraph(e entry) {
	out := Paragraph{Name: e.key, At: p.at(e.at)}
	where := fmt.Sprintf("paragraph %q", shorten(e.key))
	if strings.TrimSpace(e.key) == "" {
		p.add(e.at, "a paragraph has an empty name; give it one")
	}
	if e.value.Kind != yaml.MappingNode {
		p.add(e.place, "%s is %s; write a mapping with the key identification", where, kindOf(e.value))
		return
	}
	identified := false
	parts := p.entries(e.value, where)
	for _, part := range parts {
		switch part.key {
		case identificationKey:
			identified = true
			out.Conditions = p.identification(part, where)
		case allowKey:
			out.Deny = !p.allow(part, where)
		case classKey:
			out.Class = p.class(part, where)
		case traitsKey:
			out.Traits = p.traits(part, where)
		default:
			p.add(part.at, "%s has the unknown key %q; %s", where, shorten(part.key),
				suggest(part.key, []string{identificationKey, allowKey, classKey, traitsKey}))
		}
	}
	if !identified {
		p.add(e.at, "%s has no identification; add it, with at least one of %s", where, keyNames())
	}
	for _, part := range parts {
		if out.Deny && (part.key == classKey || part.key == traitsKey) {
			p.add(part.at, "%s has allow: false and %s, which has no effect on a denied slot; remove one of them", where,
				part.key)
		}
	}
	p.file.Paragraphs = append(p.file.Paragraphs, out)
}

// identification reads the conditions of a paragraph.
func (p *parser) identification(e entry, where string) (list []Condition) {
	where = "identification of " + where
	if e.value.Kind != yaml.MappingNode || len(e.value.Content) == 0 {
		what := kindOf(e.value)
		if e.value.Kind == yaml.MappingNode {
			what = "empty"
		}
		p.add(e.place, "%s is %s; write a mapping with at least one of %s", where, what, keyNames())
		return nil
	}
	for _, part := range p.entries(e.value, where) {
		key := ioslot.Key(part.key)
		if !slices.Contains(ioslot.Keys(), key) {
			p.add(part.at, "%s has the unknown key %q; %s", where, shorten(part.key), suggest(part.key, keyList()))
			continue
		}
		text, ok := p.scalar(part, where)
		if !ok {
			continue
		}
		if sentence := checkValue(key, text); sentence != "" {
			p.add(part.place, "%s: %s is %q; %s", where, key, shorten(text), sentence)
			continue
		}
		list = append(list, Condition{Key: key, Value: text})
	}
	return list
}

// scalar returns the text of a value as it is written, whatever type YAML gives it (C15). It warns of a text that
// another program would read as a number or as a boolean.
func (p *parser) scalar(e entry, where string) (string, bool) {
	if !isText(e.value) {
		p.add(e.place, "%s: %s is %s; write one text", where, e.key, kindOf(e.value))
		return "", false
	}
	if e.value.Style == 0 && (e.value.ShortTag() != "!!str" || slices.Contains(oldBooleans,
		strings.ToLower(e.value.Value))) {
		p.file.Warnings = append(p.file.Warnings, Problem{At: p.at(e.place), Sentence: fmt.Sprintf("%s: %s is %s without "+
			"quotes, which other programs do not read as text; write '%s'", where, e.key, e.value.Value, e.value.Value)})
	}
	return e.value.Value, true
}

// oldBooleans are the booleans of YAML 1.1 that are text in YAML 1.2.
var oldBooleans = []string{"y", "n", "yes", "no", "on", "off"}

// isText reports whether a node is a scalar with a value and without a tag of its own.
func isText(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style&yaml.TaggedStyle == 0 && (n.ShortTag() != "!!null" || n.Style != 0)
}

// checkValue returns what to write instead of a value that its key does not allow; "" for a valid one (R9 to R12).
func checkValue(key ioslot.Key, text string) string {
	digits := key.Digits()
	if digits == 0 {
		if strings.TrimSpace(text) == "" {
			return "write a location code, such as U78CB.001.WZS06S2-P1-C7"
		}
		return ""
	}
	if isPattern(text, digits) {
		return ""
	}
	sentence := fmt.Sprintf("write %d upper-case hexadecimal digits", digits)
	better := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "0X")
	if key == ioslot.Class { // PCI has two more digits, the programming interface (C17)
		sentence += ", the base class and the subclass"
		better = better[:min(len(better), digits)]
	}
	if isPattern(better, digits) {
		sentence += ", here " + better
	}
	return sentence
}

// isPattern reports whether a text consists of this number of hexadecimal digits, of which any may be the wildcard "?".
func isPattern(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789ABCDEF?") == ""
}

// allow reads a boolean: the words true and false without quotes, as YAML 1.2 spells them.
func (p *parser) allow(e entry, where string) bool {
	if e.value.Kind == yaml.ScalarNode && e.value.Style == 0 {
		switch e.value.Value {
		case "true", "True", "TRUE":
			return true
		case "false", "False", "FALSE":
			return false
		}
	}
	p.add(e.place, "%s: allow is %s; write true or false, without quotes", where, kindOf(e.value))
	return true
}

// class reads a resource class.
func (p *parser) class(e entry, where string) resource.Class {
	text, ok := p.scalar(e, where)
	if !ok || resource.IsCustom(text) || slices.Contains(deviceClasses, resource.Class(text)) {
		return resource.Class(text)
	}
	why := "it is not a resource class"
	if resource.IsStandardClass(resource.Class(text)) {
		why = "it does not count devices"
	}
	p.add(e.place, "%s: resource_class is %q, but %s; write CUSTOM_ followed by A-Z, 0-9 and _ (255 characters at most), "+
		"or one of FPGA, PCI_DEVICE, PGPU and VGPU", where, shorten(text), why)
	return ""
}

// traits reads a list of traits.
func (p *parser) traits(e entry, where string) (list []resource.Trait) {
	if e.value.Kind != yaml.SequenceNode || len(e.value.Content) == 0 {
		what := kindOf(e.value)
		if e.value.Kind == yaml.SequenceNode {
			what = "an empty list"
		}
		p.add(e.place, "%s: traits is %s; write a list with at least one trait, or remove the key", where, what)
		return nil
	}
	for _, item := range e.value.Content {
		node := resolve(item)
		if !isText(node) {
			p.add(item, "%s: traits has an item that is %s; write the name of a trait", where, kindOf(node))
			continue
		}
		if sentence := checkTrait(node.Value); sentence != "" {
			p.add(item, "%s: the trait %q %s", where, shorten(node.Value), sentence)
			continue
		}
		list = append(list, resource.Trait(node.Value))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// checkTrait returns why a trait cannot be in a file, and what to do; "" if it can (R20, R21).
func checkTrait(name string) string {
	trait := resource.Trait(name)
	switch {
	case ioslot.IsGenerated(trait):
		return "is generated by the agent, which alone decides who has it; remove it"
	case name == agentTrait:
		return "marks the PCI devices of an agent; remove it"
	case resource.IsCustom(name) || resource.IsStandardTrait(trait):
		return ""
	case strings.HasPrefix(name, "CUSTOM_"):
		return "is not valid; write CUSTOM_ followed by A-Z, 0-9 and _ (255 characters at most)"
	}
	return "is not a standard trait; correct it, or write CUSTOM_ before it"
}

func keyList() (names []string) {
	for _, k := range ioslot.Keys() {
		names = append(names, string(k))
	}
	return names
}

func keyNames() string { return strings.Join(keyList(), ", ") }

// suggest ends the message about an unknown key.
func suggest(key string, known []string) string {
	if similar := fault.Similar(key, known, max(2, len(key)/4)); len(similar) > 0 {
		return "write " + similar[0]
	}
	return "the keys are " + strings.Join(known, ", ")
}

package pci

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Pattern is the `address` of a rule. Its zero value matches every address. Each field is a number, a wildcard, or a
// regular expression that must match the digits of the field from their start, but not to their end.
type Pattern struct {
	domain, bus, slot, function field
}

// field is one component of a Pattern. An empty text is the wildcard. Without expression the text is the number in
// the format of Address.
type field struct {
	text       string
	number     uint32
	expression *regexp.Regexp
}

var addressKeys = []string{"domain", "bus", "slot", "function"}

// fieldLimits are the largest numbers, in the order of addressKeys. Nova supports domains up to FFFF; the kernel has
// longer ones.
var fieldLimits = []uint64{0xffffffff, 0xff, 0x1f, 7}

var fieldFormats = []string{"%04x", "%02x", "%02x", "%x"}

func (p *Pattern) fields() []*field { return []*field{&p.domain, &p.bus, &p.slot, &p.function} }

// pattern parses the address of a rule: text with wildcards, or an object of regular expressions.
func (o object) pattern(key string) (Pattern, error) {
	raw, there := o.values[key]
	switch {
	case !there || string(raw) == "null":
		return Pattern{}, nil
	case raw[0] == '"':
		text, err := o.text(key, "0000:81:00.*")
		if err != nil || text == "" {
			return Pattern{}, err
		}
		return parseGlob(text)
	case raw[0] == '{':
		return parseExpressions(raw)
	}
	return Pattern{}, refuse("%s: %s is %s; write text such as \"0000:81:00.*\", or an object of regular "+
		"expressions with the keys %s",
		o.option, key, clip(string(raw)), strings.Join(addressKeys, ", "))
}

// parseGlob parses `[[[domain:]bus:]slot][.function]`, where a field is hexadecimal, or "*" or empty for any value.
func parseGlob(text string) (Pattern, error) {
	left, function, _ := strings.Cut(text, ".")
	parts := strings.Split(left, ":")
	if len(parts) > 3 {
		return Pattern{}, refuse("device_spec: address %q has more than domain, bus and slot before the point; "+
			"write it as DDDD:BB:SS.F", text)
	}
	for len(parts) < 3 {
		parts = append([]string{"*"}, parts...)
	}
	var p Pattern
	for i, f := range p.fields() {
		part := strings.TrimSpace(append(parts, function)[i])
		if part == "" || part == "*" {
			continue
		}
		n, err := strconv.ParseUint(part, 16, 32)
		if err != nil || n > fieldLimits[i] {
			return Pattern{}, refuse("device_spec: the %s %q of address %q must be \"*\" or a hexadecimal number "+
				"of at most %X",
				addressKeys[i], part, text, fieldLimits[i])
		}
		f.text, f.number = fmt.Sprintf(fieldFormats[i], n), uint32(n)
	}
	return p, nil
}

func parseExpressions(raw json.RawMessage) (Pattern, error) {
	o, err := readObject("device_spec: address", raw, addressKeys)
	if err != nil {
		return Pattern{}, err
	}
	var p Pattern
	for i, f := range p.fields() {
		key := addressKeys[i]
		var text *string
		if raw, there := o.values[key]; !there {
			continue
		} else if err := json.Unmarshal(raw, &text); err != nil || text == nil {
			return Pattern{}, refuse("device_spec: address %s must be a regular expression in double quotes; it is "+
				"%s", key, clip(string(raw)))
		}
		expression, err := compile(*text)
		if err != nil {
			return Pattern{}, refuse("device_spec: address %s %q is not a regular expression (%v); any %s is "+
				"\".*\"", key, *text, err, key)
		}
		if *text != "" {
			*f = field{text: *text, expression: expression}
		}
	}
	return p, nil
}

// compile anchors an expression at the start, as Nova does. It ignores case, because addresses are written in both.
func compile(text string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(text); err != nil {
		return nil, err // compiled alone first: "a)(b" would be valid inside the group below
	}
	return regexp.Compile("^(?i:" + text + ")")
}

// match compares a number, formatted as digits for an expression.
func (f field) match(n uint32, format string) bool {
	if f.expression != nil {
		return f.expression.MatchString(fmt.Sprintf(format, n))
	}
	return f.text == "" || f.number == n
}

// Match reports whether the pattern matches an address.
func (p Pattern) Match(a Address) bool {
	return p.domain.match(a.Domain, fieldFormats[0]) && p.bus.match(uint32(a.Bus), fieldFormats[1]) &&
		p.slot.match(uint32(a.Slot), fieldFormats[2]) && p.function.match(uint32(a.Func), fieldFormats[3])
}

// Exact returns the only address that the pattern matches, if it has all fields, also as expressions that are plain
// digits.
func (p Pattern) Exact() (Address, bool) {
	a, err := ParseAddress(p.domain.text + ":" + p.bus.text + ":" + p.slot.text + "." + p.function.text)
	return a, err == nil
}

// String formats the pattern as the address of a device_spec; expressions as a JSON object.
func (p Pattern) String() string {
	object, text := p.json()
	if object == nil {
		return strconv.Quote(text)
	}
	var w writer
	for _, key := range addressKeys {
		w.text(key, object[key])
	}
	return w.String()
}

// json returns the pattern as an object of expressions or, if it has none, as text ("" for any address).
func (p Pattern) json() (object map[string]string, text string) {
	if p == (Pattern{}) {
		return nil, ""
	}
	glob := make([]string, len(addressKeys))
	for i, f := range p.fields() {
		glob[i] = "*"
		if f.text != "" {
			glob[i] = f.text
		}
		if f.expression != nil {
			if object == nil {
				object = map[string]string{}
			}
			object[addressKeys[i]] = f.text
		}
	}
	return object, strings.Join(glob[:3], ":") + "." + glob[3]
}

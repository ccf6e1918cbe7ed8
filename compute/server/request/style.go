package request

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// Style is how Nova reads the objects of requests.
var Style = edge.Style{
	MaxBody:     MaxBody,
	MaxWord:     16,
	True:        []string{"1", "t", "true", "on", "y", "yes"},
	False:       []string{"0", "f", "false", "off", "n", "no"},
	NoObject:    "the body must be an object with the key %q, whose value is an object",
	Invalid:     "Invalid input for %s.%s: %s",
	Unknown:     "Additional properties are not allowed: %[2]q in %[1]s",
	Unsupported: "Berth does not support %s.%s: %s; leave it out",
	Missing:     "it is missing; give %s",
	Wrong:       "it is %s, and should be %s",
	Length:      "it has %d characters; from %d to %d are allowed",
	NotIn:       "it is %q, and should be %s",
	Between:     " or ",
	Text:        "a text",
	Whole:       "a whole number from %d to %d",
	NoFlag:      "it is %s, and should be true or false",
}

// RefuseOthers returns fault.Invalid if there are keys beside the resource, except below /v2.
func (c *Call) RefuseOthers(name string, others map[string]json.RawMessage) error {
	if c.Lenient {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(others)) {
		return fault.New(fault.Invalid, "Additional properties are not allowed: %q beside %q", key, name)
	}
	return nil
}

// NameText decodes a required text of 1 to 255 printable characters without space at either end.
func NameText(o *edge.Object, key string) (name string) {
	o.Require(key)
	if o.Text(key, &name, 255) && (strings.TrimSpace(name) != name ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })) {
		o.Invalid(key, "it is %s; only printable characters are allowed, and no space at its ends",
			edge.Clip(strconv.Quote(name)))
	}
	return name
}

// Factor decodes a number greater than 0. It returns 1 if the key is missing.
func Factor(o *edge.Object, key string) float64 {
	text := ""
	if !o.Scalar(key, &text, "a number") {
		return 1
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n < 1e9) {
		o.Invalid(key, "it is %s, and should be a number greater than 0", edge.Clip(text))
	}
	return n
}

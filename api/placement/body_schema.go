package placement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// schema is what a value of a request body must be, as JSON Schema expresses it. A field without a value permits all.
type schema struct {
	kinds []string // types of JSON; an integer may be written as 4.0

	members  map[string]*schema // of an object
	form     func() *regexp.Regexp
	formed   *schema // other members whose names have the form; without it, the form is that of a text
	others   *schema // all other members
	closed   bool    // there are no others
	required []string

	items  *schema // of an array
	unique bool

	uuid             bool // of a text
	least, most      int  // number of members, of items or of characters; most is for texts, and 0 permits all
	minimum, maximum *float64
}

// misfit is a value that does not follow its schema.
type misfit struct{ at, why string }

// problem returns what is wrong with a value and where, "" if it follows the schema. Of several problems it returns the
// first in the order of their places, so that the same body always has the same message.
func (s *schema) problem(value any) string {
	var all []string
	for _, m := range s.misfits(value) {
		all = append(all, fmt.Sprintf("at %s: %s", cmp.Or(m.at, "/"), m.why))
	}
	if len(all) == 0 {
		return ""
	}
	return slices.Min(all)
}

// misfits returns the parts of a value that do not follow the schema.
func (s *schema) misfits(value any) []misfit {
	if kind := kindOf(value); !slices.Contains(s.kinds, kind) &&
		(kind != "number" || !slices.Contains(s.kinds, "integer") || !isInteger(value.(json.Number))) {
		return misfitting("got %s, want %s", kind, strings.Join(s.kinds, " or "))
	}
	switch v := value.(type) {
	case map[string]any:
		return s.misfitsOfObject(v)
	case []any:
		return s.misfitsOfArray(v)
	case string:
		return s.misfitsOfText(v)
	case json.Number:
		return s.misfitsOfNumber(v)
	}
	return nil
}

func misfitting(format string, args ...any) []misfit {
	return []misfit{{"", fmt.Sprintf(format, args...)}}
}

// below returns the misfits of a member or an item as those of its object or array.
func below(name string, all []misfit) []misfit {
	for i := range all {
		all[i].at = "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name) + all[i].at
	}
	return all
}

// kindOf returns the type of a decoded JSON value.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

// isInteger reports whether a number is an integer, also one that is written with a point or an exponent.
func isInteger(n json.Number) bool {
	if !strings.ContainsAny(n.String(), ".eE") {
		return true
	}
	f, err := n.Float64()
	return err == nil && f == math.Trunc(f)
}

func (s *schema) misfitsOfObject(object map[string]any) (all []misfit) {
	if len(object) < s.least {
		all = misfitting("minProperties: got %d, want %d", len(object), s.least)
	}
	var missing, foreign []string
	for _, name := range s.required {
		if _, ok := object[name]; !ok {
			missing = append(missing, name)
		}
	}
	for name, value := range object {
		of := s.members[name]
		if of == nil && s.formed != nil && s.form().MatchString(name) {
			of = s.formed
		}
		if of = cmp.Or(of, s.others); of != nil {
			all = append(all, below(name, of.misfits(value))...)
		} else if s.closed {
			foreign = append(foreign, name)
		}
	}
	switch len(missing) {
	case 0:
	case 1:
		all = append(all, misfitting("missing property %s", quoted(missing...))...)
	default:
		all = append(all, misfitting("missing properties %s", quoted(missing...))...)
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		all = append(all, misfitting("additional properties %s not allowed", quoted(foreign...))...)
	}
	return all
}

// quoted returns texts in single quotes.
func quoted(texts ...string) string {
	for i, text := range texts {
		text = strconv.Quote(text)
		texts[i] = "'" + strings.NewReplacer(`\"`, `"`, "'", `\'`).Replace(text[1:len(text)-1]) + "'"
	}
	return strings.Join(texts, ", ")
}

func (s *schema) misfitsOfArray(items []any) (all []misfit) {
	if len(items) < s.least {
		all = misfitting("minItems: got %d, want %d", len(items), s.least)
	}
	first := map[string]int{}
	for i, item := range items {
		all = append(all, below(strconv.Itoa(i), s.items.misfits(item))...)
		text, ok := item.(string) // another item is a misfit where items must be unique
		if !s.unique || !ok {
			continue
		}
		if at, twice := first[text]; twice {
			all = append(all, misfitting("items at %d and %d are equal", at, i)...)
		}
		first[text] = i
	}
	return all
}

func (s *schema) misfitsOfText(text string) (all []misfit) {
	if s.uuid && !IsUUID(text) {
		return misfitting("%s is not valid uuid: is not a UUID", quoted(text))
	}
	length := utf8.RuneCountInString(text)
	if length < s.least {
		all = misfitting("minLength: got %d, want %d", length, s.least)
	}
	if s.most > 0 && length > s.most {
		all = append(all, misfitting("maxLength: got %d, want %d", length, s.most)...)
	}
	if s.form != nil && !s.form().MatchString(text) {
		all = append(all, misfitting("%s does not match pattern %s", quoted(text), quoted(s.form().String()))...)
	}
	return all
}

func (s *schema) misfitsOfNumber(n json.Number) []misfit {
	if s.minimum != nil && compare(n, *s.minimum) < 0 {
		return misfitting("minimum: got %s, want %.10g", clip(n.String()), *s.minimum)
	}
	if s.maximum != nil && compare(n, *s.maximum) > 0 {
		return misfitting("maximum: got %s, want %.10g", clip(n.String()), *s.maximum)
	}
	return nil
}

// compare compares a number with a bound, exactly.
func compare(n json.Number, bound float64) int {
	if i, err := strconv.ParseInt(n.String(), 10, 32); err == nil {
		return cmp.Compare(float64(i), bound)
	}
	exact, ok := new(big.Rat).SetString(n.String())
	if !ok { // not JSON
		return 1
	}
	return exact.Cmp(new(big.Rat).SetFloat64(bound))
}

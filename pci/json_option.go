package pci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// Flag is an optional boolean tag.
type Flag string

// The values of a Flag.
const (
	Unset Flag = ""
	Yes   Flag = "true"
	No    Flag = "false"
)

// truths are the boolean words that Nova accepts, in lower case.
var truths = map[string]Flag{
	"1": Yes, "t": Yes, "true": Yes, "on": Yes, "y": Yes, "yes": Yes,
	"0": No, "f": No, "false": No, "off": No, "n": No, "no": No,
}

// object is one JSON object of a configuration option. Its keys are valid and unique.
type object struct {
	option string // device_spec or alias, for messages
	raw    string // the text, shortened
	values map[string]json.RawMessage
}

// readJSON parses the whole text of an option as one JSON value.
func readJSON(option, text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, refuse("%s is empty; write a JSON object, or leave the option out", option)
	}
	var raw json.RawMessage
	err := json.Unmarshal([]byte(text), &raw)
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := min(max(int(wrong.Offset)-1, 0), len(text))
		return nil, refuse("%s is not JSON: %v, at %q; put names and text in double quotes, and no comma before "+
			"a closing bracket",
			option, err, clip(text[at:]))
	}
	if err != nil {
		return nil, refuse("%s is not JSON: %v: %q", option, err, clip(text))
	}
	return bytes.TrimSpace(raw), nil
}

// readObject parses one JSON object. Keys that are not in keys, and repeated keys, are errors.
func readObject(option string, raw json.RawMessage, keys []string) (object, error) {
	o := object{option: option, raw: clip(string(raw)), values: map[string]json.RawMessage{}}
	if len(raw) == 0 || raw[0] != '{' {
		return o, refuse("%s must be an object in braces; it is %s", option, o.raw)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return o, refuse("%s is not JSON: %v: %s", option, err, o.raw)
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return o, refuse("%s is not JSON: %v: %s", option, err, o.raw)
		}
		key := fmt.Sprint(token)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return o, refuse("%s is not JSON: %v: %s", option, err, o.raw)
		}
		if _, twice := o.values[key]; twice {
			return o, refuse("%s has the key %q twice, in %s; keep one", option, key, o.raw)
		}
		if !slices.Contains(keys, key) {
			return o, refuse("%s has an unknown key %q, in %s; %s", option, key, o.raw, suggest(key, keys))
		}
		o.values[key] = value
	}
	return o, nil
}

// text returns the string under a key without the blanks around it, or "" if the key is absent. example is a valid
// value for the error.
func (o object) text(key, example string) (string, error) {
	raw, there := o.values[key]
	if !there {
		return "", nil
	}
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", refuse("%s: %s must be text in double quotes, such as %q; it is "+
			"%s", o.option, key, example, clip(string(raw)))
	}
	return strings.TrimSpace(*s), nil
}

// readNumbers parses an object of whole numbers. A key that is there twice is an error.
func readNumbers(raw json.RawMessage, to *map[string]int) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return refuse("not an object")
	}
	*to = map[string]int{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		var n *int
		if err := dec.Decode(&n); err != nil || n == nil {
			return refuse("not a whole number")
		}
		if _, twice := (*to)[fmt.Sprint(token)]; twice {
			return refuse("a key is there twice")
		}
		(*to)[fmt.Sprint(token)] = *n
	}
	return nil
}

// nonEmpty reports whether the key has a value other than null, "" and {}.
func (o object) nonEmpty(key string) bool {
	raw, there := o.values[key]
	if !there || string(raw) == "null" || string(raw) == `""` {
		return false
	}
	var fields map[string]json.RawMessage
	return json.Unmarshal(raw, &fields) != nil || len(fields) > 0
}

// flag returns the boolean under a key, written as a JSON boolean or as one of truths.
func (o object) flag(key string) (Flag, error) {
	raw, there := o.values[key]
	if !there {
		return Unset, nil
	}
	word := string(raw)
	if raw[0] == '"' {
		s, err := o.text(key, "true")
		if err != nil {
			return Unset, err
		}
		word = s
	}
	if f, known := truths[strings.ToLower(word)]; known {
		return f, nil
	}
	return Unset, refuse("%s: %s is %s; write one of true, t, yes, y, on, 1, false, f, no, n, off, "+
		"0", o.option, key, clip(string(raw)))
}

// writer formats a JSON object with its keys in the order of the calls.
type writer struct{ b strings.Builder }

// put adds a key. The value is a string, a list or map of such, a map of numbers, true or nil.
func (w *writer) put(key string, value any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err) // such values always encode
	}
	if w.b.Len() > 0 {
		w.b.WriteString(", ")
	}
	fmt.Fprintf(&w.b, "%q: %s", key, bytes.TrimSpace(b.Bytes()))
}

// text adds a key if its text is not empty.
func (w *writer) text(key, value string) {
	if value != "" {
		w.put(key, value)
	}
}

func (w *writer) String() string { return "{" + w.b.String() + "}" }

// clip shortens an operator's text for use in a message.
func clip(text string) string {
	const most = 120
	text = strings.TrimSpace(text)
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// refuse returns the error for a configuration text that is not valid.
func refuse(format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...)
}

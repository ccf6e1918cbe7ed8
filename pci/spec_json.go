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

// Flag is a boolean tag that may be left out.
type Flag string

// The values of a Flag.
const (
	Unset Flag = ""
	Yes   Flag = "true"
	No    Flag = "false"
)

// truths is Nova's strict boolean vocabulary, in lower case.
var truths = map[string]Flag{
	"1": Yes, "t": Yes, "true": Yes, "on": Yes, "y": Yes, "yes": Yes,
	"0": No, "f": No, "false": No, "off": No, "n": No, "no": No,
}

// object is one JSON object of a configuration option, its keys known and each there once.
type object struct {
	option string // device_spec or alias, for the sentences
	raw    string // as it is written, shortened
	values map[string]json.RawMessage
}

// readJSON reads the whole of an option's text as one JSON value.
func readJSON(option, text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, refuse("%s is empty; write a JSON object, or leave the option out", option)
	}
	var raw json.RawMessage
	err := json.Unmarshal([]byte(text), &raw)
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := min(max(int(wrong.Offset)-1, 0), len(text))
		return nil, refuse("%s is not JSON: %v, at %q; names and text stand in double quotes, no comma before a "+
			"closing bracket",
			option, err, clip(text[at:]))
	}
	if err != nil {
		return nil, refuse("%s is not JSON: %v: %q", option, err, clip(text))
	}
	return bytes.TrimSpace(raw), nil
}

// readObject reads one JSON object that may have these keys, and none of them twice.
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

// text is the string under a key without the blanks around it, or nothing when the key is absent.
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

// nonEmpty says whether there is a value under a key that is not null, "" or {}.
func (o object) nonEmpty(key string) bool {
	raw, there := o.values[key]
	if !there || string(raw) == "null" || string(raw) == `""` {
		return false
	}
	var fields map[string]json.RawMessage
	return json.Unmarshal(raw, &fields) != nil || len(fields) > 0
}

// flag is the boolean under a key, written as a JSON boolean or as one of Nova's words.
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

// writer prints a JSON object with its keys in the order in which they are put.
type writer struct{ b strings.Builder }

// put adds a key with a value that JSON can hold: a string, a map of strings or nil.
func (w *writer) put(key string, value any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err) // strings and maps of strings always encode
	}
	if w.b.Len() > 0 {
		w.b.WriteString(", ")
	}
	fmt.Fprintf(&w.b, "%q: %s", key, bytes.TrimSpace(b.Bytes()))
}

// text adds a key unless its text is empty.
func (w *writer) text(key, value string) {
	if value != "" {
		w.put(key, value)
	}
}

func (w *writer) String() string { return "{" + w.b.String() + "}" }

// clip shortens what an operator wrote to what fits into a sentence.
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

// refuse is the error for a configuration text that cannot be used.
func refuse(format string, args ...any) error {
	return fault.New(fault.Invalid, "pci", format, args...)
}

package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// object is one JSON object of a request, decoded key by key. err is the first error; finish refuses keys that have not
// been decoded.
type object struct {
	name string // for errors: "server"
	keys map[string]json.RawMessage
	err  error
}

// wrapped reads a body that is an object with one key for its resource, such as {"server": {…}}; others are its other
// keys.
func (c *call) wrapped(name string) (o *object, others map[string]json.RawMessage, err error) {
	var outer map[string]json.RawMessage
	if err := c.read(maxBody, &outer); err != nil {
		return nil, nil, err
	}
	o = &object{name: name}
	if outer[name] == nil || json.Unmarshal(outer[name], &o.keys) != nil || o.keys == nil {
		return nil, nil, fault.New(fault.Invalid,
			"the body must be an object with the key %q, whose value is an object", name)
	}
	delete(outer, name)
	return o, outer, nil
}

// refuseOthers returns fault.Invalid if there are keys beside the resource.
func refuseOthers(name string, others map[string]json.RawMessage) error {
	for _, key := range slices.Sorted(maps.Keys(others)) {
		return fault.New(fault.Invalid, "Additional properties are not allowed: %q beside %q", key, name)
	}
	return nil
}

func (o *object) invalid(key, format string, args ...any) {
	if o.err == nil {
		o.err = fault.New(fault.Invalid, "Invalid input for "+o.name+"."+key+": "+format, args...)
	}
}

// decode removes a key and decodes its value into v. It reports whether there was a value other than null. If must is
// set the key is required.
func (o *object) decode(key string, must bool, v any, want string) bool {
	raw, ok := o.keys[key]
	delete(o.keys, key)
	switch {
	case !ok && must:
		o.invalid(key, "it is missing; give %s", want)
		return false
	case !ok, isNull(raw) && !must:
		return false
	}
	if isNull(raw) || json.Unmarshal(raw, v) != nil {
		o.invalid(key, "it is %s, and should be %s", clip(string(raw)), want)
		return false
	}
	return true
}

func isNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// text decodes a text of low to high characters. It is required if low is at least 1.
func (o *object) text(key string, low, high int) (string, bool) {
	var s string
	if !o.decode(key, low > 0, &s, "a text") {
		return "", false
	}
	if n := utf8.RuneCountInString(s); n < low || n > high {
		o.invalid(key, "it has %d characters; from %d to %d are allowed", n, low, high)
		return "", false
	}
	return s, true
}

// nameText decodes a required text of 1 to 255 printable characters without space at either end.
func (o *object) nameText(key string) string {
	s, ok := o.text(key, 1, 255)
	if ok && (strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })) {
		o.invalid(key, "it is %s; only printable characters are allowed, and no space at its ends", clip(strconv.Quote(s)))
	}
	return s
}

// scalar decodes a text, a number or a boolean as a text, because the API allows numbers to be written as texts.
func (o *object) scalar(key string, must bool, want string) (string, bool) {
	var raw json.RawMessage
	if !o.decode(key, must, &raw, want) {
		return "", false
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	if raw[0] == '{' || raw[0] == '[' {
		o.invalid(key, "it is %s, and should be %s", clip(string(raw)), want)
		return "", false
	}
	return string(raw), true
}

// number decodes an integer from low to high. It returns absent if the key is missing.
func (o *object) number(key string, must bool, absent, low, high int) int {
	want := "a whole number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high)
	text, ok := o.scalar(key, must, want)
	if !ok {
		return absent
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		o.invalid(key, "it is %s, and should be %s", clip(text), want)
		return absent
	}
	return n
}

// factor decodes a number greater than 0. It returns 1 if the key is missing.
func (o *object) factor(key string) float64 {
	text, ok := o.scalar(key, false, "a number")
	if !ok {
		return 1
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n < 1e9) {
		o.invalid(key, "it is %s, and should be a number greater than 0", clip(text))
	}
	return n
}

// flag decodes a boolean, which may be written as a text such as "True" or "0". It returns absent if the key is
// missing.
func (o *object) flag(key string, absent bool) bool {
	text, ok := o.scalar(key, false, "true or false")
	if !ok {
		return absent
	}
	b, known := parseBool(text)
	if !known {
		o.invalid(key, "it is %s, and should be true or false", clip(text))
	}
	return b
}

// parseBool parses OpenStack's words for true and false.
func parseBool(text string) (value, known bool) {
	switch strings.ToLower(text) {
	case "1", "t", "true", "on", "y", "yes":
		return true, true
	case "0", "f", "false", "off", "n", "no":
		return false, true
	}
	return false, false
}

// finish returns the first error, or one for the first key that has not been decoded. known has the reasons for keys of
// the API that Berth does not support; null and empty values of those are accepted.
func (o *object) finish(known map[string]string) error {
	if o.err != nil {
		return o.err
	}
	for _, key := range slices.Sorted(maps.Keys(o.keys)) {
		reason, ok := known[key]
		switch {
		case !ok:
			return fault.New(fault.Invalid, "Additional properties are not allowed: %q in %s", key, o.name)
		case !slices.Contains([]string{"null", `""`, "[]", "{}", "false"}, string(o.keys[key])):
			return fault.New(fault.Invalid, "Berth does not support %s.%s: %s; leave it out", o.name, key, reason)
		}
	}
	return nil
}

// clip shortens a text to at most 60 bytes for an error.
func clip(text string) string {
	if len(text) <= 60 {
		return text
	}
	return strings.ToValidUTF8(text[:60], "") + "…"
}

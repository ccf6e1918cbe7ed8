package request

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// Object is one JSON object of a request, decoded key by key. err is the first error; finish refuses keys that have not
// been decoded.
type Object struct {
	Name string // for errors: "server"
	Keys map[string]json.RawMessage
	Err  error
}

// Wrapped reads a body that is an object with one key for its resource, such as {"server": {…}}; others are its other
// keys.
func (c *Call) Wrapped(name string) (o *Object, others map[string]json.RawMessage, err error) {
	var outer map[string]json.RawMessage
	if err := c.Read(MaxBody, &outer); err != nil {
		return nil, nil, err
	}
	o = &Object{Name: name}
	if outer[name] == nil || json.Unmarshal(outer[name], &o.Keys) != nil || o.Keys == nil {
		return nil, nil, fault.New(fault.Invalid,
			"the body must be an object with the key %q, whose value is an object", name)
	}
	delete(outer, name)
	return o, outer, nil
}

// RefuseOthers returns fault.Invalid if there are keys beside the resource.
func RefuseOthers(name string, others map[string]json.RawMessage) error {
	for _, key := range slices.Sorted(maps.Keys(others)) {
		return fault.New(fault.Invalid, "Additional properties are not allowed: %q beside %q", key, name)
	}
	return nil
}

// Invalid records that the value of a key is not valid, unless there is an error already.
func (o *Object) Invalid(key, format string, args ...any) {
	if o.Err == nil {
		o.Err = fault.New(fault.Invalid, "Invalid input for "+o.Name+"."+key+": "+format, args...)
	}
}

// Decode removes a key and decodes its value into v. It reports whether there was a value other than null. If must is
// set the key is required.
func (o *Object) Decode(key string, must bool, v any, want string) bool {
	raw, ok := o.Keys[key]
	delete(o.Keys, key)
	switch {
	case !ok && must:
		o.Invalid(key, "it is missing; give %s", want)
		return false
	case !ok, IsNull(raw) && !must:
		return false
	}
	if IsNull(raw) || json.Unmarshal(raw, v) != nil {
		o.Invalid(key, "it is %s, and should be %s", Clip(string(raw)), want)
		return false
	}
	return true
}

// Text decodes a text of low to high characters. It is required if low is at least 1.
func (o *Object) Text(key string, low, high int) (string, bool) {
	var s string
	if !o.Decode(key, low > 0, &s, "a text") {
		return "", false
	}
	if n := utf8.RuneCountInString(s); n < low || n > high {
		o.Invalid(key, "it has %d characters; from %d to %d are allowed", n, low, high)
		return "", false
	}
	return s, true
}

// NameText decodes a required text of 1 to 255 printable characters without space at either end.
func (o *Object) NameText(key string) string {
	s, ok := o.Text(key, 1, 255)
	if ok && (strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })) {
		o.Invalid(key, "it is %s; only printable characters are allowed, and no space at its ends", Clip(strconv.Quote(s)))
	}
	return s
}

// Scalar decodes a text, a number or a boolean as a text, because the API allows numbers to be written as texts.
func (o *Object) Scalar(key string, must bool, want string) (string, bool) {
	var raw json.RawMessage
	if !o.Decode(key, must, &raw, want) {
		return "", false
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	if raw[0] == '{' || raw[0] == '[' {
		o.Invalid(key, "it is %s, and should be %s", Clip(string(raw)), want)
		return "", false
	}
	return string(raw), true
}

// Number decodes an integer from low to high. It returns absent if the key is missing.
func (o *Object) Number(key string, must bool, absent, low, high int) int {
	want := "a whole number from " + strconv.Itoa(low) + " to " + strconv.Itoa(high)
	text, ok := o.Scalar(key, must, want)
	if !ok {
		return absent
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		o.Invalid(key, "it is %s, and should be %s", Clip(text), want)
		return absent
	}
	return n
}

// Factor decodes a number greater than 0. It returns 1 if the key is missing.
func (o *Object) Factor(key string) float64 {
	text, ok := o.Scalar(key, false, "a number")
	if !ok {
		return 1
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0 && n < 1e9) {
		o.Invalid(key, "it is %s, and should be a number greater than 0", Clip(text))
	}
	return n
}

// Flag decodes a boolean, which may be written as a text such as "True" or "0". It returns absent if the key is
// missing.
func (o *Object) Flag(key string, absent bool) bool {
	text, ok := o.Scalar(key, false, "true or false")
	if !ok {
		return absent
	}
	b, known := ParseBool(text)
	if !known {
		o.Invalid(key, "it is %s, and should be true or false", Clip(text))
	}
	return b
}

// Finish returns the first error, or one for the first key that has not been decoded. known has the reasons for keys of
// the API that Berth does not support; null and empty values of those are accepted.
func (o *Object) Finish(known map[string]string) error {
	if o.Err != nil {
		return o.Err
	}
	for _, key := range slices.Sorted(maps.Keys(o.Keys)) {
		reason, ok := known[key]
		switch {
		case !ok:
			return fault.New(fault.Invalid, "Additional properties are not allowed: %q in %s", key, o.Name)
		case !slices.Contains([]string{"null", `""`, "[]", "{}", "false"}, string(o.Keys[key])):
			return fault.New(fault.Invalid, "Berth does not support %s.%s: %s; leave it out", o.Name, key, reason)
		}
	}
	return nil
}

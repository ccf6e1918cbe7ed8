package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// Style is how an API reads the JSON objects of its requests: what it accepts, and its sentences, which are formats.
type Style struct {
	MaxBody  int64    // of a body, in bytes
	MaxWord  int      // of a text that is one of some words, in characters
	Null     bool     // null sets the zero value; otherwise it is like a missing key
	Decimals bool     // 5.0 is a whole number, too
	True     []string // the texts that are true, in lower case
	False    []string // the texts that are false, in lower case

	Code        string // of the faults; empty: none
	NoObject    string // a body without an object for a key: %[1]s
	Invalid     string // a value that is not valid: %[1]s is the name of the object, %[2]s the key, %[3]s the reason
	Unknown     string // a key that the API does not have: %[1]s is the name, %[2]s the key, %[3]s the method
	Unsupported string // a key that Berth does not support: %[1]s is the name, %[2]s the key, %[3]s the reason

	// The reasons, and what is expected of a value.
	Missing string // %[1]s is what is expected
	Wrong   string // %[1]s is the value, %[2]s what is expected
	Length  string // of a text: %[1]d is its length, %[2]d the minimum, %[3]d the maximum
	NotIn   string // a text that is not one of some words: %[1]s is the text, %[2]s the words
	Between string // the separator of these words
	Text    string // a text is expected
	Whole   string // a whole number is expected, from %[1]d to %[2]d
	NoFlag  string // a value that is neither true nor false: %[1]s
}

// Bool parses a text that is true or false.
func (s Style) Bool(text string) (value, known bool) {
	text = strings.ToLower(text)
	value = slices.Contains(s.True, text)
	return value, value || slices.Contains(s.False, text)
}

// ReadJSON decodes the request's body, JSON of at most limit bytes. Its faults have the status 400, 408, 413, 415 or
// 503.
func (c *Call) ReadJSON(limit int64, into any) error {
	if ct := c.R.Header.Get("Content-Type"); ct != "" {
		if media, _, err := mime.ParseMediaType(ct); err != nil || media != JSON {
			return StatusErrorf(http.StatusUnsupportedMediaType, "the body has type %q; send application/json", ct)
		}
	}
	data, err := c.ReadBody(limit)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return fault.New(fault.Invalid, "Malformed request body: it is empty; send JSON")
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.New(fault.Invalid, "Malformed request body: %w", err)
	}
	return nil
}

// Object reads a body that is an object with a key for its resource, such as {"network": {…}}. others are its other
// keys.
func (c *Call) Object(name string) (o *Object, others map[string]json.RawMessage, err error) {
	var outer map[string]json.RawMessage
	if err := c.ReadJSON(c.core.style.MaxBody, &outer); err != nil {
		return nil, nil, err
	}
	var keys map[string]json.RawMessage
	if outer[name] == nil || json.Unmarshal(outer[name], &keys) != nil || keys == nil {
		return nil, nil, c.NoObject(name)
	}
	delete(outer, name)
	return c.NewObject(name, keys), outer, nil
}

// NoObject returns the fault for a body without an object for a resource.
func (c *Call) NoObject(name string) error {
	return fault.New(fault.Invalid, c.core.style.NoObject, name)
}

// NewObject returns the reader of an object of the request. name is for its errors.
func (c *Call) NewObject(name string, keys map[string]json.RawMessage) *Object {
	return &Object{Keys: keys, name: name, method: c.R.Method, style: c.core.style, lenient: c.Lenient}
}

// Object is a JSON object of a request, which is decoded key by key. Methods that decode a key remove it, and report
// whether a valid value was given; otherwise they leave into as it is. The first error is that of Finish.
type Object struct {
	Keys map[string]json.RawMessage // those that have not been decoded

	// Reasons are why Berth does not support keys of the API. Values of these that change nothing are accepted.
	Reasons map[string]string

	name, method string
	lenient      bool // unknown keys are ignored
	style        *Style
	required     []string
	err          error
}

// Copy returns the object as it is now, for a function that runs again.
func (o *Object) Copy() *Object {
	c := *o
	c.Keys = maps.Clone(o.Keys)
	return &c
}

// Has reports whether a key was given.
func (o *Object) Has(key string) bool { _, ok := o.Keys[key]; return ok }

// Err returns the first error of a value.
func (o *Object) Err() error { return o.err }

// Require makes keys required: they must have a value, and texts at least one character.
func (o *Object) Require(keys ...string) { o.required = append(o.required, keys...) }

// Invalid records that the value of a key is not valid, unless there is an error before.
func (o *Object) Invalid(key, reason string, args ...any) {
	if o.err == nil {
		o.err = o.fault(o.style.Invalid, key, fmt.Sprintf(reason, args...))
	}
}

func (o *Object) fault(format, key, more string) error {
	err := fault.New(fault.Invalid, format, o.name, key, more)
	if o.style.Code != "" {
		return err.WithCode(o.style.Code)
	}
	return err
}

// Decode decodes any value. want is what is expected, for errors.
func (o *Object) Decode(key string, into any, want string) (given bool) {
	raw, ok := o.Keys[key]
	delete(o.Keys, key)
	null, required := IsNull(raw), slices.Contains(o.required, key)
	switch {
	case !ok && required:
		o.Invalid(key, o.style.Missing, want)
	case !ok, null && !required:
		return ok && o.style.Null
	case null || json.Unmarshal(raw, into) != nil:
		o.Invalid(key, o.style.Wrong, Clip(string(raw)), want)
	default:
		return true
	}
	return false
}

// IsNull reports whether a JSON text is null.
func IsNull(raw json.RawMessage) bool { return bytes.Equal(bytes.TrimSpace(raw), []byte("null")) }

// Text decodes a text of at most some characters.
func (o *Object) Text(key string, into *string, most int) (given bool) {
	text, least := "", 0
	if slices.Contains(o.required, key) {
		least = 1
	}
	if !o.Decode(key, &text, o.style.Text) {
		return false
	}
	if n := utf8.RuneCountInString(text); n < least || n > most {
		o.Invalid(key, o.style.Length, n, least, most)
		return false
	}
	*into = text
	return true
}

// Word decodes a text that is one of some words, or empty if null sets it to that.
func (o *Object) Word(key string, into *string, words ...string) (given bool) {
	text := ""
	switch {
	case !o.Text(key, &text, o.style.MaxWord):
		return false
	case !slices.Contains(words, text) && !(text == "" && o.style.Null):
		o.Invalid(key, o.style.NotIn, text, strings.Join(words, o.style.Between))
		return false
	}
	*into = text
	return true
}

// Scalar decodes a text, a number or a boolean as a text, because APIs allow numbers to be written as texts. want is
// what is expected, for errors.
func (o *Object) Scalar(key string, into *string, want string) (given bool) {
	var raw json.RawMessage
	if !o.Decode(key, &raw, want) {
		return false
	}
	switch {
	case raw == nil:
		*into = "null"
	case json.Unmarshal(raw, into) == nil:
	case raw[0] == '{' || raw[0] == '[':
		o.Invalid(key, o.style.Wrong, Clip(string(raw)), want)
		return false
	default:
		*into = string(raw)
	}
	return true
}

// Number decodes a whole number, which may be written as a text.
func (o *Object) Number(key string, into *int, low, high int) (given bool) {
	raw := o.Keys[key]
	if o.style.Null && IsNull(raw) {
		delete(o.Keys, key)
		*into = 0
		return true
	}
	decimals := o.style.Decimals && !bytes.HasPrefix(raw, []byte(`"`))
	text, want := "", fmt.Sprintf(o.style.Whole, low, high)
	if !o.Scalar(key, &text, want) {
		return false
	}
	n, err := strconv.Atoi(text)
	if f, is := strconv.ParseFloat(text, 64); err != nil && decimals && is == nil && float64(int(f)) == f {
		n, err = int(f), nil
	}
	if err != nil || n < low || n > high {
		o.Invalid(key, o.style.Wrong, Clip(text), want)
		return false
	}
	*into = n
	return true
}

// Flag decodes a boolean, which may be written as a text or a number.
func (o *Object) Flag(key string, into *bool) (given bool) {
	text, raw := "", string(o.Keys[key])
	if !o.Scalar(key, &text, "true or false") {
		return false
	}
	if n, err := strconv.ParseFloat(raw, 64); err == nil && o.style.Decimals { // 1.0 equals 1
		text = strconv.FormatFloat(n, 'f', -1, 64)
	}
	value, known := o.style.Bool(text)
	if !known {
		o.Invalid(key, o.style.NoFlag, Clip(text))
		return false
	}
	*into = value
	return true
}

// Ignore removes keys of the API that have no meaning in Berth, if they have a value that changes nothing.
func (o *Object) Ignore(keys ...string) {
	for _, key := range keys {
		if slices.Contains([]string{"null", `""`, "[]", "{}", "false"}, string(o.Keys[key])) {
			delete(o.Keys, key)
		}
	}
}

// Finish returns the first error, or one for the first key that has not been decoded, unless unknown keys
// are ignored.
func (o *Object) Finish() error {
	if o.err != nil {
		return o.err
	}
	o.Ignore(slices.Collect(maps.Keys(o.Reasons))...)
	for _, key := range slices.Sorted(maps.Keys(o.Keys)) {
		if reason, ok := o.Reasons[key]; ok {
			return o.fault(o.style.Unsupported, key, reason)
		}
		if !o.lenient {
			return o.fault(o.style.Unknown, key, o.method)
		}
	}
	return nil
}

// Clip shortens a text to at most 60 bytes for an error.
func Clip(text string) string { return clip(text, 60) }

func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

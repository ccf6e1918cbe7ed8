package server

import (
	"bytes"
	"encoding/json"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// maxBody is the maximum size of a request body, in bytes.
const maxBody = 4 << 20

// object is one JSON object of a request, decoded attribute by attribute. err is the first error; finish refuses
// attributes that have not been decoded.
type object struct {
	name string // for errors: network
	keys map[string]json.RawMessage
	err  error
}

// copy returns the object as it was received, for a function that runs again.
func (o *object) copy() *object { return &object{name: o.name, keys: maps.Clone(o.keys)} }

// body reads the JSON body of a request.
func (c *call) body(into any) error {
	if ct := c.R.Header.Get("Content-Type"); ct != "" {
		if media, _, err := mime.ParseMediaType(ct); err != nil || media != edge.JSON {
			return edge.StatusErrorf(http.StatusUnsupportedMediaType, "the body has type %q; send application/json", ct)
		}
	}
	data, err := c.ReadBody(maxBody)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fault.New(fault.Invalid, "Malformed request body: %w", err)
	}
	return nil
}

// object reads a body that is an object with one key for its resource, such as {"network": {…}}.
func (c *call) object(name string) (*object, error) {
	list, _, err := c.objects(name, "")
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

// maxBulk is how many objects one request may create. They are created in one transaction.
const maxBulk = 1000

// objects reads a body with one resource, or with a list of them under the key many, such as {"networks": [{…}]}. bulk
// reports whether it is a list.
func (c *call) objects(name, many string) (list []*object, bulk bool, err error) {
	var outer map[string]json.RawMessage
	if err := c.body(&outer); err != nil {
		return nil, false, err
	}
	var all []map[string]json.RawMessage
	if bulk = many != "" && outer[many] != nil && outer[name] == nil; bulk {
		err = json.Unmarshal(outer[many], &all)
		if err == nil && len(all) > maxBulk {
			return nil, true, fault.New(fault.Invalid, "'%s' has %d elements; a request can create at most %d", many,
				len(all), maxBulk)
		}
	} else {
		all = make([]map[string]json.RawMessage, 1)
		if outer[name] != nil {
			err = json.Unmarshal(outer[name], &all[0])
		}
	}
	if err != nil || len(all) == 0 ||
		slices.ContainsFunc(all, func(o map[string]json.RawMessage) bool { return o == nil }) {
		return nil, bulk, fault.New(fault.Invalid, "Unable to find '%s' in request body; send an object with this key, "+
			"whose value is an object", name)
	}
	for _, keys := range all {
		list = append(list, &object{name: name, keys: keys})
	}
	return list, bulk, nil
}

func (o *object) has(key string) bool { _, ok := o.keys[key]; return ok }

func (o *object) invalid(key, format string, args ...any) {
	if o.err == nil {
		o.err = fault.New(fault.Invalid, "Invalid input for "+key+". Reason: "+format+".", args...).
			WithCode("HTTPBadRequest")
	}
}

// decode removes an attribute and decodes its value into v. It reports whether the attribute was given; null leaves v
// as it is, and given is true.
func (o *object) decode(key string, v any, want string) (given bool) {
	raw, ok := o.keys[key]
	delete(o.keys, key)
	if !ok || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return ok
	}
	if json.Unmarshal(raw, v) != nil {
		text := string(raw)
		if len(text) > 60 {
			text = strings.ToValidUTF8(text[:60], "") + "…"
		}
		o.invalid(key, "'%s' is not %s", text, want)
	}
	return true
}

// text sets a text of at most limit characters, if the attribute is given. null sets an empty text.
func (o *object) text(key string, into *string, limit int) (given bool) {
	var v string
	if given = o.decode(key, &v, "a valid string"); !given {
		return false
	}
	if n := utf8.RuneCountInString(v); n > limit {
		o.invalid(key, "it has %d characters and exceeds the maximum length of %d", n, limit)
	}
	*into = v
	return true
}

// word sets a text that must be one of some words, or empty for null.
func (o *object) word(key string, into *string, words ...string) (given bool) {
	given = o.text(key, into, 255)
	if given && *into != "" && !slices.Contains(words, *into) {
		o.invalid(key, "'%s' is not in [%s]", *into, strings.Join(words, ", "))
	}
	return given
}

// flag sets a boolean, which may be written as a text or a number.
func (o *object) flag(key string, into *bool) {
	var v any
	if !o.decode(key, &v, "a boolean") {
		return
	}
	text, _ := v.(string)
	switch {
	case v == true || v == 1.0 || slices.Contains([]string{"true", "1"}, strings.ToLower(text)):
		*into = true
	case v == false || v == 0.0 || slices.Contains([]string{"false", "0"}, strings.ToLower(text)):
		*into = false
	default:
		o.invalid(key, "'%v' cannot be converted to boolean", v)
	}
}

// number sets a whole number from low to high, which may be written as a text. null sets 0.
func (o *object) number(key string, into *int, low, high int) (given bool) {
	var v any
	if given = o.decode(key, &v, "an integer"); !given {
		return false
	}
	n, err := 0, error(nil)
	switch v := v.(type) {
	case nil:
	case float64:
		if n = int(v); float64(n) != v {
			err = strconv.ErrSyntax
		}
	case string:
		n, err = strconv.Atoi(v)
	default:
		err = strconv.ErrSyntax
	}
	if err != nil || v != nil && (n < low || n > high) {
		o.invalid(key, "'%v' is not an integer from %d to %d", v, low, high)
		return true
	}
	*into = n
	return true
}

// ignore removes attributes of the API that have no meaning in Berth, if they have a value that changes nothing.
func (o *object) ignore(keys ...string) {
	for _, key := range keys {
		if raw, ok := o.keys[key]; ok && slices.Contains([]string{"null", `""`, "[]", "{}", "false"}, string(raw)) {
			delete(o.keys, key)
		}
	}
}

// finish returns the first error, or one for attributes that have not been decoded.
func (o *object) finish(method string) error {
	if o.err != nil {
		return o.err
	}
	for _, key := range slices.Sorted(maps.Keys(o.keys)) {
		return fault.New(fault.Invalid, "Attribute '%s' not allowed in %s of a %s; leave it out", key, method, o.name).
			WithCode("HTTPBadRequest")
	}
	return nil
}

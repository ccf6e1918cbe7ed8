package placement

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/openberth/berth/fault"
)

// Bodies validates and decodes request bodies. A schema is compiled when a body of its kind is read first: all of them
// would lengthen each start. It is safe for concurrent use.
type Bodies struct{ schemas map[Body][]versionedSchema }

// versionedSchema is a schema and the microversion from which it is in effect.
type versionedSchema struct {
	since   Version
	compile func() (*jsonschema.Schema, error) // only once; an error is a defect of the schema
}

// NewBodies returns the bodies of all requests.
func NewBodies() *Bodies {
	b := &Bodies{schemas: map[Body][]versionedSchema{}}
	for body, editions := range schemas() {
		for _, e := range editions {
			compile := sync.OnceValues(func() (*jsonschema.Schema, error) { return compileSchema(e.schema) })
			b.schemas[body] = append(b.schemas[body], versionedSchema{e.since, compile})
		}
	}
	return b
}

// compileSchema compiles a schema, in which the format uuid is that of IsUUID.
func compileSchema(schema any) (*jsonschema.Schema, error) {
	c := jsonschema.NewCompiler()
	c.RegisterFormat(&jsonschema.Format{Name: "uuid", Validate: func(v any) error {
		if text, ok := v.(string); ok && !IsUUID(text) {
			return errors.New("is not a UUID")
		}
		return nil
	}})
	c.AssertFormat()
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	const name = "berth:///body"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	return c.Compile(name)
}

// Read validates data, a body of this kind at this microversion, and decodes it into a document type of this package.
// It returns fault.Invalid, with the place of the error in the body, if the body does not follow its schema; unknown
// members are errors too.
func (b *Bodies) Read(body Body, v Version, data []byte, into any) error {
	if !utf8.Valid(data) {
		return fault.New(fault.Invalid, "Malformed JSON: the text is not UTF-8")
	}
	if hasLoneSurrogate(data) { // Go would replace it by another character, and the original fails
		return fault.New(fault.Invalid, "Malformed JSON: it contains an unpaired surrogate")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fault.New(fault.Invalid, "Malformed JSON: %w", err)
	}
	if value, err = asPythonNumbers(value); err != nil {
		return fault.New(fault.Invalid, "JSON does not validate: %w", err)
	}
	schema, err := b.schema(body, v)
	if err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return fault.New(fault.Invalid, "JSON does not validate: %s", validationMessage(err))
	}
	// The validated value is decoded, not data: if a member occurs twice, both use the last one.
	validated, err := json.Marshal(normalizeIntegers("", value))
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	if err := json.Unmarshal(validated, into); err != nil {
		return fault.New(fault.Invalid, "JSON does not validate: %w", err)
	}
	return nil
}

// schema returns the schema of a body at a microversion.
func (b *Bodies) schema(body Body, v Version) (*jsonschema.Schema, error) {
	for _, s := range slices.Backward(b.schemas[body]) {
		if v < s.since {
			continue
		}
		compiled, err := s.compile()
		if err != nil {
			return nil, fault.New(fault.Internal, "schema of %s since %s: %w", body, s.since, err)
		}
		return compiled, nil
	}
	return nil, fault.New(fault.Internal, "%s has no body at microversion %s", body, v)
}

// Names returns the member names of the object under member in a body, in the order of the body. Read must have
// accepted the body.
func Names(data []byte, member string) (names []string) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(members[member]))
	if _, err := d.Token(); err != nil { // the opening brace
		return nil
	}
	for d.More() {
		name, err := d.Token()
		text, ok := name.(string)
		var skipped json.RawMessage
		if err != nil || !ok || d.Decode(&skipped) != nil {
			return names
		}
		names = append(names, text)
	}
	return names
}

// hasLoneSurrogate reports whether a JSON text contains half of a surrogate pair, such as the escape \ud83d alone.
func hasLoneSurrogate(data []byte) bool {
	for at := bytes.IndexByte(data, '\\'); at >= 0 && at < len(data); {
		r := escaped(data[at:])
		switch {
		case r < 0:
			at += 2
		case !utf16.IsSurrogate(r):
			at += 6
		case utf16.DecodeRune(r, escaped(data[at+6:])) == utf8.RuneError:
			return true
		default:
			at += 12
		}
		if at < len(data) {
			next := bytes.IndexByte(data[at:], '\\')
			if next < 0 {
				return false
			}
			at += next
		}
	}
	return false
}

// escaped returns the character of the escape \uXXXX at the beginning of data; -1 if there is none.
func escaped(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(data[2:6]), 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}

// validationMessage returns what is wrong and where. Of several errors it returns the first in the order of their
// places, so that the same body always has the same message.
func validationMessage(err error) string {
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return err.Error()
	}
	var all []string
	for _, unit := range invalid.BasicOutput().Errors {
		if unit.Error != nil && len(unit.Errors) == 0 {
			all = append(all, fmt.Sprintf("at %s: %s", cmp.Or(unit.InstanceLocation, "/"), unit.Error.String()))
		}
	}
	if len(all) == 0 {
		return invalid.Error()
	}
	return slices.Min(all)
}

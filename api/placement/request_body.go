package placement

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/openberth/berth/fault"
)

// Body names one kind of request body. Its schema may differ between microversions.
type Body string

// The request bodies of the API.
const (
	BodyNewProvider  Body = "POST /resource_providers"
	BodyProvider     Body = "PUT /resource_providers/{uuid}"
	BodyNewInventory Body = "POST /resource_providers/{uuid}/inventories"
	BodyInventory    Body = "PUT /resource_providers/{uuid}/inventories/{resource_class}"
	BodyInventories  Body = "PUT /resource_providers/{uuid}/inventories"
	BodyAggregates   Body = "PUT /resource_providers/{uuid}/aggregates"
	BodyTraits       Body = "PUT /resource_providers/{uuid}/traits"
	BodyClass        Body = "POST /resource_classes"
	BodyAllocation   Body = "PUT /allocations/{consumer_uuid}"
	BodyAllocations  Body = "POST /allocations"
	BodyReshape      Body = "POST /reshaper"
)

// Bodies reads request bodies strictly. It holds the compiled schemas and is safe for concurrent use.
type Bodies struct{ schemas map[Body][]versionedSchema }

// versionedSchema is a schema and the microversion that brought it.
type versionedSchema struct {
	since  Version
	schema *jsonschema.Schema
}

// NewBodies compiles the schemas. An error is a mistake in them.
func NewBodies() (*Bodies, error) {
	const op = "placement.NewBodies"
	c := jsonschema.NewCompiler()
	c.RegisterFormat(&jsonschema.Format{Name: "uuid", Validate: func(v any) error {
		if text, ok := v.(string); ok && !IsUUID(text) {
			return errors.New("is no UUID")
		}
		return nil
	}})
	c.AssertFormat()
	b := &Bodies{schemas: map[Body][]versionedSchema{}}
	for body, editions := range schemas() {
		for _, e := range editions {
			name := fmt.Sprintf("berth:///%d/%s", e.since, strings.NewReplacer(" ", "", "{", "", "}", "").Replace(string(body)))
			text, err := json.Marshal(e.schema)
			if err != nil {
				return nil, fault.Wrap(fault.Internal, op, err)
			}
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
			if err != nil {
				return nil, fault.Wrap(fault.Internal, op, err)
			}
			if err := c.AddResource(name, doc); err != nil {
				return nil, fault.Wrap(fault.Internal, op, err)
			}
			compiled, err := c.Compile(name)
			if err != nil {
				return nil, fault.New(fault.Internal, op, "schema of %s since %s: %w", body, e.since, err)
			}
			b.schemas[body] = append(b.schemas[body], versionedSchema{e.since, compiled})
		}
	}
	return b, nil
}

// Read reads data, the body of this kind at this microversion, into a document type of this package. What does not
// follow the schema, unknown members included, is fault.Invalid with a sentence that names the place.
func (b *Bodies) Read(body Body, v Version, data []byte, into any) error {
	const op = "placement.Read"
	if !utf8.Valid(data) {
		return fault.New(fault.Invalid, op, "Malformed JSON: the text is not UTF-8")
	}
	if hasLoneSurrogate(data) { // Go would put another character in its place, and the original falls over it
		return fault.New(fault.Invalid, op, "Malformed JSON: half of a surrogate pair is no character")
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return fault.New(fault.Invalid, op, "Malformed JSON: %w", err)
	}
	if value, err = asPythonNumbers(value); err != nil {
		return fault.New(fault.Invalid, op, "JSON does not validate: %w", err)
	}
	var schema *jsonschema.Schema
	for _, s := range b.schemas[body] {
		if v >= s.since {
			schema = s.schema
		}
	}
	if schema == nil {
		return fault.New(fault.Internal, op, "%s has no body at microversion %s", body, v)
	}
	if err := schema.Validate(value); err != nil {
		return fault.New(fault.Invalid, op, "JSON does not validate: %s", validationMessage(err))
	}
	// What was judged is what is read: of a member that is there twice, the last one.
	judged, err := json.Marshal(integersOnly("", value))
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	if err := json.Unmarshal(judged, into); err != nil {
		return fault.New(fault.Invalid, op, "JSON does not validate: %w", err)
	}
	return nil
}

// Names lists the names in the object that a body has under member, in their order, which a map forgets. The body is one that Read took.
func Names(data []byte, member string) (names []string) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(members[member]))
	if _, err := d.Token(); err != nil { // the brace
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

// hasLoneSurrogate says whether a text in JSON has an escape such as \ud83d without its other half.
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

// escaped is the character that \uXXXX at the beginning stands for; -1: there is none.
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

// validationMessage says what is wrong, and where: of several mistakes the first by place, so that one body has one sentence.
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

package placement

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/openberth/berth/fault"
)

// Bodies validates and decodes request bodies. It is safe for concurrent use.
type Bodies struct{ schemas map[Body][]schemaVersion }

// NewBodies returns the bodies of all requests.
func NewBodies() *Bodies { return &Bodies{schemas()} }

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
	value, err := decodeNumbers(data)
	if err != nil {
		return fault.New(fault.Invalid, "Malformed JSON: %w", err)
	}
	if value, err = asPythonNumbers(value); err != nil {
		return fault.New(fault.Invalid, "JSON does not validate: %w", err)
	}
	var valid *schema
	for _, s := range b.schemas[body] {
		if v >= s.since {
			valid = s.schema
		}
	}
	if valid == nil {
		return fault.New(fault.Internal, "%s has no body at microversion %s", body, v)
	}
	if problem := valid.problem(value); problem != "" {
		return fault.New(fault.Invalid, "JSON does not validate: %s", problem)
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

// decodeNumbers decodes a JSON text that contains one value, with numbers as they are written.
func decodeNumbers(data []byte) (value any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("invalid character after top-level value")
	}
	return value, nil
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

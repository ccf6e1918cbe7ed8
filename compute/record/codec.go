package record

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/openberth/berth/fault"
)

// encode returns the text of a record. what names the record in the fault, such as "server 42".
func encode(what string, record any) ([]byte, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot write the record of %s: %w", what, err)
	}
	return text, nil
}

// decode reads the text of a record into record, a pointer. The fault names the record and what to do.
func decode(what string, text []byte, record any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields() // a field that is not read would be lost with the next change
	err := decoder.Decode(record)
	if err == nil && decoder.More() {
		err = errors.New("there is text after its end")
	}
	if err != nil {
		return unreadable(what, err)
	}
	return nil
}

// unreadable returns the fault for a record that cannot be read. It has only the text of the error: as the cause of a
// fault, io.ErrUnexpectedEOF is a lost connection to the database.
func unreadable(what string, err error) error {
	return fault.New(fault.Internal, "cannot read the record of %s: %v; start the Berth that wrote it, or restore a "+
		"backup of the database", what, err)
}

// foreign returns the fault for a record that belongs to another object.
func foreign(what, of string) error {
	return fault.New(fault.Internal, "cannot read the record of %s: it is the record of %q; restore a backup of the "+
		"database", what, of)
}

// each converts the elements of a list. A nil list stays nil and an empty one empty.
func each[A, B any](list []A, convert func(A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i, one := range list {
		out[i] = convert(one)
	}
	return out
}

// eachValue converts the values of a map. A nil map stays nil.
func eachValue[A, B any](of map[string]A, convert func(A) B) map[string]B {
	if of == nil {
		return nil
	}
	out := make(map[string]B, len(of))
	for key, one := range of {
		out[key] = convert(one)
	}
	return out
}

// optional converts what a pointer points to. A nil pointer stays nil.
func optional[A, B any](from *A, convert func(A) B) *B {
	if from == nil {
		return nil
	}
	to := convert(*from)
	return &to
}

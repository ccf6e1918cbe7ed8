package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/openberth/berth/fault"
)

// recordVersion is the version in which this program writes the records of servers and hosts.
//
// After the first release, every change of a record raises it, also a new field or a new word, and adds a migration to
// the schema (see recordsVersion). A program without that migration does not start on the database, so no program drops
// what a newer one has stored. Before it, a change needs neither.
const recordVersion = 7

// currentPrefix begins every record of the current version: encoding/json writes fields in their order.
var currentPrefix = fmt.Appendf(nil, `{"version":%d,`, recordVersion)

// encodeRecord returns the text of a record. what names the record in the fault, such as "server 42".
func encodeRecord(what string, record any) ([]byte, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot write the record of %s: %w", what, err)
	}
	return text, nil
}

// decodeRecord reads the text of a record of any known version into record, a pointer to a record of the current one.
// The fault names the record and what to do.
func decodeRecord(what string, text []byte, record any) error {
	version, err := versionOf(text)
	if err == nil && version == 1 {
		text, err = upgradeVersion1(text, reflect.TypeOf(record).Elem())
	}
	switch {
	case err != nil:
	case version < 1 || version > recordVersion:
		return fault.New(fault.Internal, "cannot read the record of %s: it has version %d, and this Berth reads "+
			"versions 1 to %d; start the Berth that wrote it, or a newer one", what, version, recordVersion)
	default:
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields() // a field that is not read would be lost with the next change
		err = decoder.Decode(record)
		if err == nil && decoder.More() {
			err = errors.New("there is text after its end")
		}
	}
	if err != nil {
		return fault.New(fault.Internal, "cannot read the record of %s: %w; start the Berth that wrote it, "+
			"or restore a backup of the database", what, err)
	}
	return nil
}

// foreignRecord returns the fault for a record that belongs to another object.
func foreignRecord(what, of string) error {
	return fault.New(fault.Internal, "cannot read the record of %s: it is the record of %q; restore a backup of "+
		"the database", what, of)
}

// versionOf returns the version of a record. A record without a version has version 1.
func versionOf(text []byte) (int, error) {
	if bytes.HasPrefix(text, currentPrefix) {
		return recordVersion, nil
	}
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return 0, err
	}
	if head.Version == nil {
		return 1, nil
	}
	return *head.Version, nil
}

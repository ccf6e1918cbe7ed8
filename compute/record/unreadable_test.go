package record

import (
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestUnreadableRecordIsRejected checks that a record that this program cannot read completely is an error with its
// name and what to do.
func TestUnreadableRecordIsRejected(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"s"}{"id":"s"}`:            "text after its end",
		`{"id":"s","color":"red"}`:        `unknown field "color"; start the Berth that wrote it, or`,
		`{"id":"s","version":7}`:          `unknown field "version"`,
		`{"id":"s","devices":[{"x`:        "unexpected EOF",
		`{"id":"s","state":"dancing"`:     "unexpected EOF",
		`{"id":"s","state":"dancing"}`:    "is not a known state; start the Berth that wrote it, or restore a backup",
		`{"id":"s","state":"moving"}`:     "is not a known state",
		`{"id":"s","task_state":"dance"}`: "is not a known task",
		`{"id":"s","name":["s"]}`:         "cannot unmarshal array",
		`{}`:                              `it is the record of ""; restore a backup`,
		`{"id":"another"}`:                `it is the record of "another"`,
		`[]`:                              "cannot unmarshal array",
		``:                                "EOF",
	} {
		if server, err := DecodeServer("s", []byte(text)); !isRejected(err, "server s", want) {
			t.Errorf("%s is read as %+v %v, want an error with %q", text, server, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"host":"another"}`:          `it is the record of "another"`,
		`{"host":"h"`:                 "unexpected end of JSON",
		`{"host":"h","devices":[{}]}`: "restore a backup",
	} {
		if host, err := DecodeHost("h", []byte(text)); !isRejected(err, "host h", want) {
			t.Errorf("%s is read as %+v %v, want an error with %q", text, host, err, want)
		}
	}
}

// isRejected reports whether err is an internal fault that contains all texts.
func isRejected(err error, texts ...string) bool {
	return fault.Is(err, fault.Internal) && !slices.ContainsFunc(texts, func(text string) bool {
		return !strings.Contains(err.Error(), text)
	})
}

package record

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// compact reads an indented JSON file of testdata without its white space.
func compact(t testing.TB, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	var b bytes.Buffer
	if err == nil {
		err = json.Compact(&b, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRecordIsUnchanged checks that the record of a server is read and written as testdata has it. A new field is added
// to testdata.
func TestRecordIsUnchanged(t *testing.T) {
	text := compact(t, "server.json")
	server, err := DecodeServer("text 2", text)
	if err != nil {
		t.Fatal(err)
	}
	if at := unset("", reflect.ValueOf(server)); at != "" {
		t.Errorf("no record has Server%s; add it to the record and to testdata", at)
	}
	if now, err := EncodeServer(server); err != nil || !bytes.Equal(now, text) {
		t.Errorf("%v, a server is written as\n%s\nbefore as\n%s", err, now, text)
	}
}

package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
)

// A journal cut at any byte, as a crash may leave it, has the state of the whole lines before the cut and can be
// written.
func TestTornAtEveryByte(t *testing.T) {
	source := t.TempDir()
	fill(t, open(t, source))
	data, err := os.ReadFile(filepath.Join(source, fileName))
	ok(t, err)
	// After a power failure, a file can end with zeros when its length was written before its data.
	for _, tail := range []string{"", "\x00\x00\x00", "\x00\n"} {
		for cut := range len(data) + 1 {
			want, err := parse("whole", data[:bytes.LastIndexByte(data[:cut], '\n')+1])
			ok(t, err)
			left := append(bytes.Clone(data[:cut]), tail...)
			got, err := parse("torn", left)
			if err != nil || !reflect.DeepEqual(got.state, want.state) {
				t.Fatalf("cut at %d, tail %q: got %+v %v\nwant %+v", cut, tail, got, err, want.state)
			}
			if cut%101 == 0 {
				writeAfterCrash(t, left, want.state)
			}
		}
	}
}

// writeAfterCrash opens a journal with this content, checks that its state is want, and writes to it.
func writeAfterCrash(t *testing.T, data []byte, want State) {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, fileName), data, 0o600))
	j := open(t, dir)
	ok(t, j.Write(Put("after", nil)))
	ok(t, j.Close())
	again, err := Read(dir)
	if want = want.With(Entry{Kind: kindServer, Server: "after"}); err != nil || !reflect.DeepEqual(again, want) {
		t.Fatalf("%q: after writing %+v %v\nwant %+v", data, again, err, want)
	}
}

// A damaged line before the last one is refused: no claim may be lost silently.
func TestDamageInTheMiddleIsRefused(t *testing.T) {
	source := t.TempDir()
	j := open(t, source)
	ok(t, j.Write(Put("s1", []device.Claim{claim("s1", "r1", "0000:3b:00.1")})))
	ok(t, j.Write(Put("s2", nil)))
	ok(t, j.Write(Put("s3", nil)))
	path := filepath.Join(source, fileName)
	data, err := os.ReadFile(path)
	ok(t, err)
	first := bytes.IndexByte(data, '\n') + 1
	second := first + bytes.IndexByte(data[first:], '\n') + 1
	refused := 0
	for i := first; i < second; i++ {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		got, err := parse(path, bad)
		if err == nil {
			// A change without effect in JSON, such as the case of a key.
			if want, _ := parse(path, data); !reflect.DeepEqual(got.state, want.state) {
				t.Errorf("byte %d: reads as %+v", i, got.state)
			}
			continue
		}
		refused++
		if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "line 2") &&
			!strings.Contains(err.Error(), "line 3") {
			t.Errorf("byte %d: the fault does not name the line: %v", i, err)
		}
	}
	if refused < (second-first)/2 {
		t.Errorf("only %d of %d changes were refused", refused, second-first)
	}
	bad := bytes.Clone(data)
	bad[first+20] ^= 1
	ok(t, j.Close())
	ok(t, os.WriteFile(path, bad, 0o600))
	if _, err := Open(source); !fault.Is(err, fault.Internal) {
		t.Errorf("opened: %v", err)
	}
	// A refused journal is unlocked and untouched.
	if now, _ := os.ReadFile(path); !bytes.Equal(now, bad) {
		t.Error("the refused file was changed")
	}
	ok(t, os.WriteFile(path, data, 0o600))
	open(t, source)
}

// A journal of a newer version, or with an unknown entry or field, is refused, and stays unchanged,
// also when only the last line is unknown. Only a damaged last line counts as incomplete.
func TestNewerJournalIsRefused(t *testing.T) {
	header, err := Entry{Kind: kindFormat, Version: version}.encode()
	ok(t, err)
	for name, text := range map[string]string{
		"version":        `{"kind":"format","version":3}`,
		"version, field": `{"kind":"format","version":3,"by":"Berth 9"}`,
		"kind":           `{"kind":"novelty"}`,
		"field":          `{"kind":"server","server":"s","color":"red"}`,
		"field inside": `{"kind":"server","server":"s","claims":[{"request":"r","state":"claimed",` +
			`"address":"0000:3b:00.1","numa_node":0,"color":"red"}]}`,
	} {
		for _, before := range [][]byte{nil, header} {
			dir := t.TempDir()
			file := filepath.Join(dir, fileName)
			data := fmt.Appendf(slices.Clone(before), `{"crc":"%s","entry":%s}`+"\n", checksum([]byte(text)), text)
			ok(t, os.WriteFile(file, data, 0o600))
			_, err := Open(dir)
			if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), file+": a newer Berth wrote the entry") {
				t.Errorf("%s: %v", name, err)
			}
			if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, data) {
				t.Errorf("%s: the journal was written: %s %v", name, now, err)
			}
		}
	}
}

// A journal of an earlier version is refused with what to do, and stays unchanged.
func TestOlderJournalIsRefused(t *testing.T) {
	dir, text := t.TempDir(), `{"kind":"format","version":1}`
	file := filepath.Join(dir, fileName)
	data := fmt.Appendf(nil, `{"crc":"%s","entry":%s}`+"\n", checksum([]byte(text)), text)
	ok(t, os.WriteFile(file, data, 0o600))
	if _, err := Open(dir); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), file+": an earlier Berth") {
		t.Error(err)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, data) {
		t.Errorf("the journal was written: %s %v", now, err)
	}
}

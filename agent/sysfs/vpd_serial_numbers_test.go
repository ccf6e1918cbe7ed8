package sysfs

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openberth/berth/agent/facts"
	"github.com/openberth/berth/pci"
)

// TestSerials tests that serial numbers are read only for the requested devices, and that a capture has zeros
// instead.
func TestSerials(t *testing.T) {
	m := card()
	m[deviceDir+"/"+vfAt+"/vpd"] = &fstest.MapFile{Data: []byte(vpd("PN\x03ABCSN\x06 S123 RV\x01x"))}
	m[deviceDir+"/"+pfAt+"/vpd"] = &fstest.MapFile{Data: []byte(vpd("PN\x03ABC"))}
	calls := 0
	fsys := faulty{MapFS: m, calls: &calls}
	serials := func(fsys fs.FS, want func(pci.Device) bool) (string, []facts.Problem) {
		found := read(t, fsys)
		ReadSerials(&found, fsys, want)
		var words []string
		for _, d := range found.Devices {
			words = append(words, fmt.Sprintf("%q", d.Serial))
		}
		return strings.Join(words, " "), found.Problems
	}
	all := func(pci.Device) bool { return true }
	if got, problems := serials(fsys, all); got != `"" "S123"` || len(problems) > 0 {
		t.Errorf("%s %v", got, problems)
	}
	if got, _ := serials(fsys, func(d pci.Device) bool { return d.Type == pci.Physical }); got != `"" ""` {
		t.Errorf("PF only: %s", got)
	}
	fsys.fail = map[string]error{vfAt + "/vpd": fs.ErrPermission}
	if got, problems := serials(fsys, all); got != `"" ""` || len(problems) != 1 ||
		!strings.Contains(problems[0].String(), "permission denied") {
		t.Errorf("%s %v", got, problems)
	}
	fsys.fail = nil
	text, err := Capture(fsys)
	if err != nil || strings.Contains(string(text), "S123") {
		t.Fatalf("%v\n%s", err, text)
	}
	loaded, err := Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, problems := serials(loaded, all); got != `"" "0"` || len(problems) > 0 {
		t.Errorf("captured: %s %v", got, problems)
	}
	if d := deviceAt(t, read(t, loaded), vfAt); d.Type != pci.VDPA {
		t.Errorf("captured: %v", d)
	}
}

func FuzzParseSerial(f *testing.F) {
	f.Add([]byte(vpd("SN\x04S123")))
	f.Add([]byte("\x90\x09\x00SN\xff12"))
	f.Add([]byte("\x82"))
	f.Fuzz(func(t *testing.T, data []byte) {
		serial := parseSerial(data)
		if again := parseSerial(formatSerial(serial)); again != serial {
			t.Errorf("%q became %q", serial, again)
		}
	})
}

// vpd returns vital product data in the format of a card: an identifier, the read-only part, a writable part, the
// end.
func vpd(fields string) string {
	large := func(tag byte, body string) string {
		return string([]byte{tag, byte(len(body)), byte(len(body) >> 8)}) + body
	}
	return large(0x82, "A card") + large(0x90, fields) + large(0x91, "V1\x02no") + "\x78"
}

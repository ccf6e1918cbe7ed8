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
	m[deviceDir+"/"+pfAt+"/net/ens1/address"] = &fstest.MapFile{Data: []byte("52:54:00:AB:00:01\n")}
	calls := 0
	fsys := faulty{MapFS: m, calls: &calls}
	serials := func(fsys fs.FS, want func(pci.Device) bool) (string, []facts.Problem) {
		found := read(t, fsys)
		ReadSerials(&found, fsys, want)
		var words []string
		for _, d := range found.Devices {
			words = append(words, fmt.Sprintf("%q", d.Serial))
			if d.Parent != nil && d.PFMAC != "" && d.Serial == "" {
				t.Errorf("%s", d)
			}
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

// TestCardsOfVFs tests that a VF is identified by its number and by the MAC address of its PF, and that both are
// missing if one of them is unknown.
func TestCardsOfVFs(t *testing.T) {
	const virtfn = deviceDir + "/" + pfAt + "/virtfn3"
	const mac = deviceDir + "/" + pfAt + "/net/ens1/address"
	for name, c := range map[string]struct {
		change func(m fstest.MapFS)
		mac    string
		number int
		want   string // of the problem
	}{
		"complete":     {func(fstest.MapFS) {}, "52:54:00:ab:00:01", 3, ""},
		"no number":    {func(m fstest.MapFS) { delete(m, virtfn) }, "", 0, ""},
		"no interface": {func(m fstest.MapFS) { delete(m, mac) }, "", 3, "bind it to its driver"},
		"no MAC":       {func(m fstest.MapFS) { m[mac] = &fstest.MapFile{Data: []byte("none")} }, "", 3, "is unknown"},
		"no serial":    {func(m fstest.MapFS) { delete(m, deviceDir+"/"+vfAt+"/vpd") }, "", 0, ""},
	} {
		m := card()
		m[deviceDir+"/"+vfAt+"/vpd"] = &fstest.MapFile{Data: []byte(vpd("SN\x04S123"))}
		m[mac] = &fstest.MapFile{Data: []byte("52:54:00:AB:00:01\n")}
		m[virtfn] = &fstest.MapFile{Data: []byte("../" + vfAt), Mode: fs.ModeSymlink | 0o777}
		m[deviceDir+"/"+pfAt+"/virtfnx"] = &fstest.MapFile{Data: []byte("../" + vfAt), Mode: fs.ModeSymlink | 0o777}
		c.change(m)
		found := read(t, m)
		before := len(found.Problems)
		ReadSerials(&found, m, func(d pci.Device) bool { return d.Address.String() == vfAt })
		d := deviceAt(t, found, vfAt)
		var problems []string
		for _, p := range found.Problems[before:] {
			problems = append(problems, p.String())
		}
		if d.PFMAC != c.mac || d.VFNumber != c.number || (len(problems) > 0) != (c.want != "") ||
			!strings.Contains(strings.Join(problems, "\n"), c.want) {
			t.Errorf("%s: %q %d %q", name, d.PFMAC, d.VFNumber, problems)
		}
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

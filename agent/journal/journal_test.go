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
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/resource"
)

func open(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func claim(server, request, address string) device.Claim {
	a, err := pci.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	pf := pci.Address{Domain: a.Domain, Bus: a.Bus}
	return device.Claim{Holder: resource.ConsumerID(server), Request: request, State: device.Claimed, Offer: device.Offer{
		Device: pci.Device{Address: a, Vendor: "8086", Product: "1515", Type: pci.Virtual, Parent: &pf, NUMANode: 1,
			IOMMUGroup: pci.NoGroup},
		Provider: "p-" + resource.ProviderID(address), Name: "cmp1_" + address, Class: "CUSTOM_NIC",
		Traits: []resource.Trait{"CUSTOM_A"}, Managed: pci.No, LiveMigratable: pci.Yes}}
}

// fill writes entries of all kinds and returns the expected state.
func fill(t *testing.T, j *Journal) State {
	t.Helper()
	ok(t, j.Write(Identity{Host: "cmp1", Provider: "11111111-1111-4111-8111-111111111111", Instance: "an agent",
		Starts: 3}.Entry()))
	ok(t, j.Write(Put("s1", []device.Claim{claim("s1", "r1", "0000:3b:00.1"), claim("s1", "r1", "10000:01:00.0")})))
	ok(t, j.Write(Put("s2", nil)))
	ok(t, j.Write(Put("s3", []device.Claim{claim("s3", "r3", "0000:3b:00.2")})))
	ok(t, j.Write(Gone("s3")))
	ok(t, j.Write(Put("s4", []device.Claim{claim("s4", "r4", "0000:3b:00.3")})))
	ok(t, j.Write(Removed("s4")))
	ok(t, j.Write(OwnedBy("pf", Owned{Classes: []resource.Class{"CUSTOM_NIC"}, Traits: []resource.Trait{"CUSTOM_A"}})))
	ok(t, j.Write(OwnedBy("gone", Owned{Traits: []resource.Trait{"CUSTOM_B"}})))
	ok(t, j.Write(OwnedBy("gone", Owned{})))
	return j.State()
}

func TestReopenKeepsState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "directory")
	j := open(t, dir)
	if _, has := j.State().Identity(); has {
		t.Error("a new journal has an identity")
	}
	want := fill(t, j)
	if got, _ := want.Of("s1"); !reflect.DeepEqual(got[0], claim("s1", "r1", "0000:3b:00.1")) {
		t.Errorf("a claim is read as %+v", got[0])
	}
	if got := want.Servers(); !reflect.DeepEqual(got, []string{"s1", "s2"}) {
		t.Errorf("servers %v", got)
	}
	if got := want.Gone(); !reflect.DeepEqual(got, []string{"s3"}) {
		t.Errorf("gone %v", got)
	}
	if got := want.Claims(); len(got) != 2 || got[0].Device.Address.String() != "0000:3b:00.1" || got[1].Holder != "s1" {
		t.Errorf("claims %v", got)
	}
	if claims, has := want.Of("s2"); !has || claims != nil {
		t.Errorf("s2: %v %v", claims, has)
	}
	ok(t, j.Close())
	for range 2 { // the first opening compacts
		again := open(t, dir)
		if got := again.State(); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		ok(t, again.Close())
	}
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Read: %+v %v", got, err)
	}
}

func TestReadOfNothingIsEmpty(t *testing.T) {
	dir := t.TempDir()
	state, err := Read(dir)
	if _, has := state.Identity(); err != nil || has || len(state.Servers()) != 0 {
		t.Errorf("%+v %v", state, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("Read created files: %v %v", left, err)
	}
}

func TestTwoOpeners(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	_, err := Open(dir)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("the second opener got %v", err)
	}
	if _, err := Read(dir); err != nil {
		t.Errorf("a dry run is refused: %v", err)
	}
	ok(t, first.Close())
	ok(t, first.Close())
	if err := first.Write(Put("s", nil)); err == nil {
		t.Error("wrote after Close")
	}
	ok(t, open(t, dir).Write(Put("s", nil)))
}

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
		"version":        `{"kind":"format","version":2}`,
		"version, field": `{"kind":"format","version":2,"by":"Berth 9"}`,
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

func TestCompaction(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	j.slack = 100
	for range 150 {
		ok(t, j.Write(Put("s1", []device.Claim{claim("s1", "r", "0000:00:01.0")})))
	}
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	ok(t, err)
	if lines := bytes.Count(data, []byte{'\n'}); lines > 60 {
		t.Errorf("%d lines after 150 writes", lines)
	}
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got, j.State()) {
		t.Errorf("%+v %v", got, err)
	}
}

// A write that fails changes nothing, and the next one repairs the file.
func TestFailedWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	ok(t, j.Write(Put("s1", nil)))
	j.file.Close() // as when the disk fails
	if err := j.Write(Put("s2", nil)); !fault.Is(err, fault.Unavailable) {
		t.Fatalf("wrote: %v", err)
	}
	if _, has := j.State().Of("s2"); has {
		t.Error("the state has an entry that was not written")
	}
	ok(t, j.Write(Put("s3", nil)))
	if got, err := Read(dir); err != nil || !reflect.DeepEqual(got.Servers(), []string{"s1", "s3"}) {
		t.Errorf("%v %v", got.Servers(), err)
	}
}

func TestUnreadableDirectoryIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(file, nil, 0o600))
	if _, err := Open(filepath.Join(file, "under")); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

// Any content is read without panic, and what was read can be written and read again.
func FuzzParse(f *testing.F) {
	line, _ := Entry{Kind: kindServer, Server: "s", Claims: toWire([]device.Claim{claim("s", "r",
		"0000:3b:00.1")})}.encode()
	header, _ := Entry{Kind: kindFormat, Version: version}.encode()
	f.Add([]byte{})
	f.Add(append(bytes.Clone(header), line...))
	f.Add(append(append(bytes.Clone(header), line...), line[:20]...))
	f.Add([]byte("{\"crc\":\"00000000\",\"entry\":{}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse("f", data)
		if err != nil {
			return
		}
		text, lines, err := c.state.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse("f", text)
		if err != nil || again.torn || again.lines != lines || !reflect.DeepEqual(again.state, c.state) {
			t.Errorf("%v: %+v then %+v", err, c.state, again.state)
		}
	})
}

// A claim is read as it was written, with all fields or with few.
func TestClaimRoundTrip(t *testing.T) {
	dir := t.TempDir()
	much, little := claim("s1", "r1", "0000:3b:00.1"), claim("s1", "r1", "0000:3c:00.0")
	little.State = device.Allocated
	little.Offer = device.Offer{Device: pci.Device{Address: little.Device.Address, Vendor: "10de", Product: "20b0",
		Type: pci.Plain, NUMANode: pci.NoNUMA, IOMMUGroup: 7}}
	j := open(t, dir)
	ok(t, j.Write(Put("s1", []device.Claim{much, little})))
	ok(t, j.Close())
	got, _ := open(t, dir).State().Of("s1")
	if want := []device.Claim{much, little}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// A journal that cannot be replaced because the disk is full leaves no file; an incomplete file of a killed agent is
// removed at the next start.
func TestNoUnfinishedFileIsLeft(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir)
	want := fill(t, j)
	fresh := filepath.Join(dir, fileName+".new")
	ok(t, os.Symlink("/dev/full", fresh)) // a write there fails with a full disk
	j.mu.Lock()
	err := j.replace()
	j.mu.Unlock()
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
	if _, err := os.Lstat(fresh); !os.IsNotExist(err) {
		t.Errorf("the unfinished file is left: %v", err)
	}
	ok(t, j.Close())
	ok(t, os.WriteFile(fresh, []byte("{"), 0o600))
	if again := open(t, dir); !reflect.DeepEqual(again.State(), want) {
		t.Errorf("%+v", again.State())
	}
	if _, err := os.Lstat(fresh); !os.IsNotExist(err) {
		t.Errorf("a file of a killed agent is left: %v", err)
	}
}

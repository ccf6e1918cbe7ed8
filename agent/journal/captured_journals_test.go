package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/pci"
)

// summary returns the content of a state as text.
func summary(s State) string {
	id, _ := s.Identity()
	out := fmt.Sprintf("%s provider=%s starts=%d cloud=%s at %d/%d, %d starts, %d marks, servers:\n",
		id.Host, id.Provider[:8], id.Starts, id.Cloud[:8], s.Position().Epoch, s.Position().Revision, len(s.Starts()),
		len(s.Owned()))
	for _, server := range s.Servers() {
		out += server[:8]
		claims, _ := s.Of(server)
		for _, c := range claims {
			d := c.Device
			out += fmt.Sprintf(" %s %s:%s %s %s %06x node %d of %s in %s",
				c.State, d.Vendor, d.Product, d.Type, d.Address, d.Class, d.NUMANode, c.Name, c.ResourceClass)
		}
		for _, p := range s.Cells(server) {
			out += fmt.Sprintf("; cell of %v and %d MiB on node %d, cpus %v, emulator %v",
				p.VCPUs, p.MemoryMB, p.Node, p.CPUs, p.EmulatorThreads)
		}
		out += "\n"
	}
	for at, spent := range s.Spent() {
		out += fmt.Sprintf("spent %s of %s\n", at, spent.Provider[:8])
	}
	return out
}

const capturedJournals = `cmp1 provider=ade3ff35 starts=2 cloud=16bec893 at 1/83, 1 starts, 5 marks, servers:
0dfe75d6 allocated 8086:1515 type-VF 0000:81:03.3 020000 node 0 of cmp1_0000:81:03.0 in CUSTOM_PCI_8086_1515
37d53e29
4318caf8
48f518ff allocated 8086:1515 type-VF 0000:81:03.2 020000 node 0 of cmp1_0000:81:03.0 in CUSTOM_PCI_8086_1515
589a67a1 allocated 8086:1515 type-VF 0000:81:03.1 020000 node 0 of cmp1_0000:81:03.0 in CUSTOM_PCI_8086_1515
60afb737
6a1e55dd
9f0f6870
b05fc659
b1b02628 allocated 8086:1533 type-PCI 0000:81:01.0 020000 node 1 of cmp1_0000:81:01.0 in CUSTOM_PCI_8086_1533` +
	`; cell of [0 1] and 128 MiB on node 1, cpus map[0:5 1:6], emulator [7]
b86c09fa
cdd2db77
de36057c
cmp2 provider=b05fa55f starts=1 cloud=16bec893 at 1/13, 1 starts, 5 marks, servers:
8b903fcd allocated 8086:1515 type-VF 0000:81:03.2 020000 node 0 of cmp2_0000:81:03.0 in CUSTOM_PCI_8086_1515
b0494bbb allocated 8086:1533 type-PCI 0000:81:01.0 020000 node 1 of cmp2_0000:81:01.0 in CUSTOM_PCI_8086_1533
c8979dae allocated 8086:1515 type-VF 0000:81:03.1 020000 node 0 of cmp2_0000:81:03.0 in CUSTOM_PCI_8086_1515
spent 0000:81:01.0 of 7ce21294
cmp3 provider=d60cb15c starts=2 cloud=16bec893 at 1/28, 1 starts, 5 marks, servers:
37d53e29
8ccac463
b3100d7f
b86c09fa
de36057c
`

// Journals that agents have written are read as they were written, at the end and after each of their entries.
func TestCapturedJournals(t *testing.T) {
	var got strings.Builder
	for _, name := range []string{"cmp1", "cmp2", "cmp3"} {
		data, err := os.ReadFile(filepath.Join("testdata", "captured", name))
		ok(t, err)
		dir := t.TempDir()
		ok(t, os.WriteFile(filepath.Join(dir, fileName), data, 0o600))
		state, err := Read(dir)
		ok(t, err)
		j := open(t, dir)
		if !reflect.DeepEqual(j.State(), state) {
			t.Errorf("%s is opened as\n%+v\nand read as\n%+v", name, j.State(), state)
		}
		ok(t, j.Close())
		if again, err := Read(dir); err != nil || !reflect.DeepEqual(again, state) {
			t.Errorf("%s was rewritten as\n%+v %v\nwant\n%+v", name, again, err, state)
		}
		got.WriteString(summary(state))
		checkLines(t, data)
	}
	if got.String() != capturedJournals {
		t.Errorf("got\n%s\nwant\n%s", got.String(), capturedJournals)
	}
}

// checkLines checks that each line changes the state by its entry, and is encoded again with the same bytes.
func checkLines(t *testing.T, data []byte) {
	t.Helper()
	end := 0
	for line := range bytes.Lines(data) {
		end += len(line)
		e, err := parseLine(line)
		ok(t, err)
		if again, err := e.encode(); err != nil || !bytes.Equal(again, line) {
			t.Errorf("%sis written as\n%s%v", line, again, err)
		}
		c, err := parse("journal", data[:end])
		ok(t, err)
		checkEntry(t, line, c.state)
	}
}

// checkEntry checks a state right after an entry, which is read here without the code that the journal uses.
func checkEntry(t *testing.T, line []byte, s State) {
	t.Helper()
	var decoded struct {
		Entry struct {
			Kind, Server, Was, Address string
			Claims                     []struct{ Address string }
		}
	}
	ok(t, json.Unmarshal(line, &decoded))
	e := decoded.Entry
	is := true
	switch e.Kind {
	case "server":
		claims, taken := s.Of(e.Server)
		is = taken && len(claims) == len(e.Claims)
	case "left":
		is = slices.Contains(s.Gone(), e.Server)
	case "removed":
		is = !s.Has(e.Server)
	case "renamed":
		is = s.Renames()[e.Server].Was == e.Was
	case "unrenamed":
		_, known := s.Renames()[e.Server]
		is = !known
	case "spent":
		at, err := pci.ParseAddress(e.Address)
		ok(t, err)
		_, is = s.Spent()[device.PCI(at)]
	}
	if !is {
		t.Errorf("after %s the state is %+v", line, s)
	}
}

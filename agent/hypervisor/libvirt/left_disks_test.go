package libvirt

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/libvirt/domainxml"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
)

// TestLeftDisks checks which directories a new domain replaces, which ones Destroy removes although no guest is known,
// and what the operator reads about the others.
func TestLeftDisks(t *testing.T) {
	id := hypervisortest.ID("a")
	own := func(h domainxml.Held, incoming bool) *domainxml.Guest {
		h.Host = "here"
		return &domainxml.Guest{ID: id, Domain: id, Held: h, Incoming: incoming}
	}
	of := func(g *domainxml.Guest, change func(*domainxml.Guest)) *domainxml.Guest {
		change(g)
		return g
	}
	renamed := func(g *domainxml.Guest) { g.ID = hypervisortest.ID("b") }
	elsewhere := func(g *domainxml.Guest) { g.Host = "there" }
	for name, c := range map[string]struct {
		record   *domainxml.Guest // nil: none
		damaged  bool
		noDisk   bool
		replaced bool // by a new domain
		received bool // replaced by a guest that arrives
		removed  bool // by Destroy
		finding  string
	}{
		"unfinished": {record: own(domainxml.Held{}, false), replaced: true, received: true, removed: true},
		"removing": {record: own(domainxml.Held{Made: true, Removing: true}, false), replaced: true, received: true,
			removed: true},
		"complete": {record: own(domainxml.Held{Made: true}, false)},
		"arriving": {record: own(domainxml.Held{}, true), received: true, finding: "may have arrived"},
		"arriving without a disk": {record: own(domainxml.Held{}, true), noDisk: true, replaced: true, received: true,
			removed: true},
		"complete elsewhere":   {record: of(own(domainxml.Held{Made: true}, false), elsewhere), finding: `host "there"`},
		"unfinished elsewhere": {record: of(own(domainxml.Held{}, false), elsewhere), finding: `host "there"`},
		"of another guest":     {record: of(own(domainxml.Held{}, false), renamed), replaced: true, received: true},
		"no record":            {finding: "no record"},
		"damaged record":       {damaged: true},
		"nothing":              {noDisk: true, replaced: true, received: true, removed: true},
	} {
		run := func(do func(directory) error) (gone bool, err error) {
			t.Helper()
			d, err := New(Options{Dir: t.TempDir(), Host: "here"})
			must(t, err)
			must(t, d.makeDir(id))
			if c.record != nil {
				text, err := domainxml.EncodeGuest(*c.record)
				must(t, err)
				must(t, os.WriteFile(d.path(id, recordName), []byte(text), 0o600))
			}
			if c.damaged {
				must(t, os.WriteFile(d.path(id, recordName), []byte("<gue"), 0o600))
			}
			if !c.noDisk {
				must(t, os.WriteFile(d.path(id, "disk-0.qcow2"), nil, 0o600))
			}
			err = do(d.directory)
			_, missing := os.Stat(d.path(id))
			return missing != nil, err
		}
		domain := uuid.MustParse(id)
		for incoming, want := range map[bool]bool{false: c.replaced, true: c.received} {
			gone, err := run(func(d directory) error { return d.removeUnfinished(domain, incoming) })
			if gone != want || want && err != nil || !want && !fault.Is(err, fault.Conflict) {
				t.Errorf("%s: replaced: %t, incoming %t: %v", name, gone, incoming, err)
			}
		}
		gone, err := run(func(d directory) error { return d.removeUnlisted(domain, id) })
		if gone != c.removed || err != nil {
			t.Errorf("%s: destroyed: %t %v", name, gone, err)
		}
		_, err = run(func(d directory) error {
			findings, err := d.leftDisks(nil)
			if all := findings.String(); (c.finding == "") != (all == "") || !strings.Contains(all, c.finding) {
				t.Errorf("%s: %q", name, all)
			}
			return err
		})
		must(t, err)
	}
}

// TestStartWithFilesThatStay starts the agent while the files of a removed guest cannot be deleted, such as a directory
// in which another program has mounted a file system: the other guests of the host are served.
func TestStartWithFilesThatStay(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := openHost(t, daemon, daemon.GuestDir(t))
	id := uuid.MustParse(hypervisortest.ID("a"))
	must(t, d.writeRecord(id, domainxml.Guest{ID: id.String(), Domain: id.String(),
		Held: domainxml.Held{Removing: true}}))
	mounted := d.path(id.String(), "mounted")
	must(t, os.Mkdir(mounted, 0o700))
	if err := syscall.Mount("none", mounted, "tmpfs", 0, "size=16k"); err != nil {
		t.Fatalf("mounting a tmpfs failed; run this test as root: %v", err)
	}
	unmount := sync.OnceFunc(func() { must(t, syscall.Unmount(mounted, 0)) })
	t.Cleanup(unmount)
	must(t, d.Start(t.Context()))
	wantGuests(t, d)
	unmount()
	must(t, d.Start(t.Context()))
	if exists(d.path(id.String())) {
		t.Error("the files of the removed guest remain")
	}
}

package powervm_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/hypervisor/powervm"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/novalink"
)

// damages are the ways in which a file can be damaged, by name.
var damages = map[string]func(path string) error{
	"empty":         func(path string) error { return os.WriteFile(path, nil, 0o600) },
	"garbage":       func(path string) error { return os.WriteFile(path, []byte("\x00{"), 0o600) },
	"cut":           func(path string) error { return os.Truncate(path, 20) },
	"of no version": func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) },
	"of another version": func(path string) error {
		return os.WriteFile(path, []byte(`{"version": 2, "partition_name": "web-123456789012"}`), 0o600)
	},
	"with another field": func(path string) error {
		return os.WriteFile(path, []byte(`{"version": 1, "partition_name": "web-123456789012", "x": 1}`), 0o600)
	},
	"a directory": func(path string) error {
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Mkdir(path, 0o700)
	},
	"unreadable": func(path string) error { // a link to itself, because root may read every file
		if err := os.Remove(path); err != nil {
			return err
		}
		return os.Symlink(path, path)
	},
}

// The record of a guest is damaged: the other guests are served and new ones built, a remark names the file, and the
// guest and its partition are neither built again, removed nor given to another guest. With the restored file it is
// served again.
func TestDamagedRecord(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			n, dir := startNovaLink(t), t.TempDir()
			h := n.driver(t, dir)
			whole, lost := guest("a", firstSlot+1), guest("b", firstSlot+2)
			must(t, h.Build(t.Context(), whole))
			must(t, h.Build(t.Context(), lost))
			file := filepath.Join(dir, lost.ID+".json")
			text, err := os.ReadFile(file)
			must(t, err)
			must(t, damage(file))

			h = n.driver(t, dir)
			must(t, h.Start(t.Context()))
			wantGuests(t, h, whole.ID)
			wantRemark(t, h, file)
			kept, second, taking := lost, lost, guest("c", firstSlot+2)
			kept.Kept = true
			second.ID, second.Server, second.Devices = hypervisortest.ID("d"), lost.ID, nil
			for what, err := range map[string]error{"build": h.Build(t.Context(), lost), "kept": h.Build(t.Context(), kept),
				"destroy": h.Destroy(t.Context(), lost.ID), "second of its server": h.Build(t.Context(), second),
				"rename": h.Rename(t.Context(), lost.ID, hypervisortest.ID("e"), "")} {
				if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), file) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := h.Build(t.Context(), taking); !fault.Is(err, fault.Conflict) {
				t.Errorf("its slot is given to another guest: %v", err)
			}
			other := guest("f", firstSlot+3)
			must(t, h.Build(t.Context(), other))
			wantGuests(t, h, whole.ID, other.ID)
			must(t, h.Destroy(t.Context(), other.ID))

			must(t, os.RemoveAll(file))
			must(t, os.WriteFile(file, text, 0o600))
			wantGuests(t, h, whole.ID, lost.ID)
			wantRemark(t, h, "")
			must(t, h.Destroy(t.Context(), lost.ID))
		})
	}
}

// The record of an abandoned partition is damaged: guests are served, a remark names the file, and the partition that
// is created late stays until the operator has removed it.
func TestDamagedRecordOfAnAbandonedPartition(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			n, dir := startNovaLink(t), t.TempDir()
			h := powervm.New(n.client(t), powervm.Options{Dir: dir, Sweep: time.Millisecond})
			g := guest("a", firstSlot+1)
			n.Inject(novalink.Fault{Method: "PUT", Path: "/LogicalPartition", Late: true})
			if err := h.Build(t.Context(), g); !fault.Is(err, fault.Unavailable) {
				t.Fatal(err)
			}
			must(t, h.Destroy(t.Context(), g.ID))
			files, err := filepath.Glob(filepath.Join(dir, "abandoned", "*.json"))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			must(t, damage(files[0]))
			n.PerformLate()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			h.Maintain(ctx)
			if partitionCount(n) != 1 {
				t.Error("the partition was removed")
			}
			wantRemark(t, h, files[0])
			must(t, h.Build(t.Context(), guest("b", firstSlot+2)))
		})
	}
}

// wantRemark checks that the remark names a file, and has it or its guest as its subject; an empty name: there is none.
func wantRemark(t *testing.T, h hypervisor.Hypervisor, file string) {
	t.Helper()
	c, err := h.Capacity(t.Context())
	if err != nil || !strings.Contains(c.Remarks.String(), file) || (file == "") != (len(c.Remarks) == 0) {
		t.Errorf("the remarks are %q, %v; want %q", c.Remarks, err, file)
	}
	for _, r := range c.Remarks {
		if !strings.Contains(file, r.Subject) || r.Subject == "" {
			t.Errorf("the subject is %q, want one of %q", r.Subject, file)
		}
	}
}

// wantGuests checks which guests are listed, by id.
func wantGuests(t *testing.T, h hypervisor.Hypervisor, want ...string) {
	t.Helper()
	list, err := h.Guests(t.Context())
	var got []string
	for _, g := range list {
		got = append(got, g.ID)
	}
	if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("guests %v %v, want %v", got, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

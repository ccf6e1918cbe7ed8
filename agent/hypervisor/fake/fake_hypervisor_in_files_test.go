package fake

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/fault"
)

func TestContract(t *testing.T) {
	var mu sync.Mutex
	dirs := map[string]string{}
	hypervisortest.Run(t, func(t *testing.T) hypervisor.Hypervisor {
		mu.Lock()
		defer mu.Unlock()
		if dirs[t.Name()] == "" {
			dirs[t.Name()] = filepath.Join(t.TempDir(), "[odd]*name")
		}
		h, err := New(dirs[t.Name()], hypervisor.Capacity{})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}, nil)
}

// TestDisks checks the content of disks after each operation.
func TestDisks(t *testing.T) {
	var mu sync.Mutex
	dirs := map[string]string{}
	open := func(t *testing.T, host string) *Hypervisor {
		mu.Lock()
		defer mu.Unlock()
		key := t.Name() + host
		if dirs[key] == "" {
			dirs[key] = t.TempDir()
		}
		h, err := New(dirs[key], hypervisor.Capacity{})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	hypervisortest.RunDisks(t, hypervisortest.Disks{
		Open: func(t *testing.T, host string) hypervisor.Hypervisor {
			h := open(t, host)
			h.Peer = func(host string) (*Hypervisor, error) { return open(t, host), nil }
			return h
		},
		Write: func(t *testing.T, h hypervisor.Hypervisor, id string, content byte) {
			if err := h.(*Hypervisor).SetDisk(id, string(content)); err != nil {
				t.Fatal(err)
			}
		},
		Read: func(t *testing.T, h hypervisor.Hypervisor, id string) byte {
			content, err := h.(*Hypervisor).Disk(id)
			if err != nil {
				t.Fatal(err)
			}
			return append([]byte(content), 0)[0]
		},
	})
}

func TestPortDevices(t *testing.T) {
	dir := t.TempDir()
	hypervisortest.PortDevices(t, func(t *testing.T) hypervisor.Hypervisor {
		h, err := New(dir, hypervisor.Capacity{})
		if err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func TestInjectedFaults(t *testing.T) {
	h, err := New(t.TempDir(), hypervisor.Capacity{VCPUs: 1, MemoryMB: 2, DiskGB: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := hypervisor.Capacity{Type: hypervisor.FakeType, VCPUs: 1, MemoryMB: 2, DiskGB: 3,
		NoDiskImages: "its agent has no image service; configure [glance]"}
	if c, err := h.Capacity(t.Context()); err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("%+v %v", c, err)
	}
	var asked []string
	h.Fail = func(_ context.Context, operation, guest string) error {
		asked = append(asked, operation+" "+guest)
		return fault.New(fault.Internal, "no power")
	}
	_, err1 := h.Capacity(t.Context())
	_, err2 := h.Guests(t.Context())
	err3 := h.Build(t.Context(), hypervisor.Guest{ID: "g"})
	err4 := h.Destroy(t.Context(), "g")
	for _, err := range []error{err1, err2, err3, err4} {
		if !fault.Is(err, fault.Internal) {
			t.Errorf("%v", err)
		}
	}
	if got := strings.Join(asked, ","); got != "capacity ,guests ,build g,destroy g" {
		t.Error(got)
	}
	h.Fail = nil
	if guests, err := h.Guests(t.Context()); err != nil || len(guests) != 0 {
		t.Errorf("%v %v", guests, err)
	}
}

func TestInvalidIDsAreRefused(t *testing.T) {
	h, err := New(filepath.Join(t.TempDir(), "guests"), hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"", ".", "..", "../up", "a/b", ".hidden"} {
		if err := h.Build(t.Context(), hypervisor.Guest{ID: id}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", id, err)
		}
		if err := h.Destroy(t.Context(), id); !fault.Is(err, fault.Invalid) {
			t.Errorf("destroy %q: %v", id, err)
		}
	}
}

func TestBuildCreatesDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "guests")
	h, err := New(dir, hypervisor.Capacity{})
	if err != nil {
		t.Fatal(err)
	}
	if guests, err := h.Guests(t.Context()); err != nil || len(guests) != 0 {
		t.Errorf("%v %v", guests, err)
	}
	if err := h.Destroy(t.Context(), "g"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !os.IsNotExist(err) {
		t.Errorf("looking has made the directory: %v", err)
	}
	if err := h.Build(t.Context(), hypervisor.Guest{ID: "g"}); err != nil {
		t.Fatal(err)
	}
	if guests, err := h.Guests(t.Context()); err != nil || len(guests) != 1 {
		t.Errorf("%v %v", guests, err)
	}
}

// Package fake is a hypervisor that runs nothing: its guests are files in a directory.
//
// The guests survive kill -9, as real ones survive their agent. It refuses to give one device to two guests, so that
// errors of the agent become visible, and it can inject faults.
package fake

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

// defaultCapacity is the capacity of a fake host for which New got none.
var defaultCapacity = hypervisor.Capacity{VCPUs: 64, MemoryMB: 262144, DiskGB: 4096}

// Hypervisor stores its guests in a directory, one JSON file each.
type Hypervisor struct {
	// Fail, when set, is called before each operation ("check", "capacity", "guests", "build", "rename", "migrate",
	// "upload", "end upload", "destroy", "console", "diagnostics", "crash dump") with the guest's id, if any. A fault that
	// it returns becomes the operation's result. It may block, to simulate a slow hypervisor. Set it before use.
	Fail func(ctx context.Context, operation, guest string) error

	// Peer returns the hypervisor of another host, from which the disks of guests that move are copied. nil: the fake
	// hypervisors of other hosts are other processes, and no content is copied from them.
	Peer func(host string) (*Hypervisor, error)

	// Images are where disks that become images go, and those of unshelved servers come from. nil: there is no image
	// service.
	Images Images

	dir      string
	capacity hypervisor.Capacity
	mu       sync.Mutex // one build or destroy at a time, so that looking for another holder and writing are one step

	damaged hypervisor.Remarks // why the files of guests cannot be read, at the last reading

	observe func(path string) // called before and after each change of a file; only for tests
}

var _ hypervisor.Hypervisor = (*Hypervisor)(nil)

// New returns the hypervisor whose guests are in dir; the first guest creates it. A zero capacity means 64 VCPUs, 256
// GiB of memory and 4 TiB of disk. New does no I/O; the error is nil.
func New(dir string, capacity hypervisor.Capacity) (*Hypervisor, error) {
	if reflect.DeepEqual(capacity, hypervisor.Capacity{}) {
		capacity = defaultCapacity
	}
	capacity.Type = hypervisor.FakeType
	return &Hypervisor{dir: dir, capacity: capacity}, nil
}

// Start removes the incomplete files of a process that was killed.
func (h *Hypervisor) Start(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	entries, err := os.ReadDir(h.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever built
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".json"+unfinished) || strings.HasPrefix(entry.Name(), uploadPrefix) {
			err = errors.Join(err, os.Remove(filepath.Join(h.dir, entry.Name())))
		}
	}
	if err != nil {
		return fault.New(fault.Unavailable, "cannot remove unfinished files of guests: %w", err)
	}
	return nil
}

// Check returns nil.
func (h *Hypervisor) Check(ctx context.Context) error { return h.begin(ctx, "check", "") }

// Capacity returns the capacity given to New, with a remark about files of guests that cannot be read.
func (h *Hypervisor) Capacity(ctx context.Context) (hypervisor.Capacity, error) {
	if err := h.begin(ctx, "capacity", ""); err != nil {
		return hypervisor.Capacity{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	out := h.capacity
	out.Remarks = slices.Clone(h.damaged)
	h.addDiskImages(&out)
	return out, nil
}

// Guests reads the files.
func (h *Hypervisor) Guests(ctx context.Context) ([]hypervisor.Guest, error) {
	if err := h.begin(ctx, "guests", ""); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.read()
}

// Build writes the guest's file.
func (h *Hypervisor) Build(ctx context.Context, g hypervisor.Guest) error {
	if err := h.begin(ctx, "build", g.ID); err != nil {
		return err
	}
	if err := checkID(g.ID); err != nil {
		return err
	}
	g.Devices = slices.SortedFunc(slices.Values(g.Devices), byID)
	image, fromImage, err := h.diskOfImage(ctx, g)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	guests, err := h.readConflicting(g)
	if err != nil {
		return err
	}
	if _, err := h.readGuest(g.ID); fault.CodeOf(err) == damagedFile {
		return err // the guest may have a disk
	}
	if g.Kept && !slices.ContainsFunc(guests, func(other hypervisor.Guest) bool { return other.ID == g.ID }) {
		return fault.New(fault.NotFound, "the guest %s was built here, and its file in %s is missing, so it is not "+
			"built as a new one", g.ID, h.dir)
	}
	g.Kept, g.Lost = false, ""
	for _, other := range guests {
		if other.ID == g.ID {
			switch {
			case other.Departed:
				return fault.New(fault.Conflict, "the guest %s runs on another host now", g.ID)
			case !other.SameDevices(g):
				return fault.New(fault.Conflict, "the guest %s has other devices: %v, not %v", g.ID, ids(other),
					ids(g))
			case reflect.DeepEqual(other, withoutSource(g)):
				return nil
			}
			continue
		}
		for _, a := range ids(g) {
			if slices.Contains(ids(other), a) {
				return fault.New(fault.Conflict, "device %s is held by the guest %s", a, other.ID)
			}
		}
	}
	if (g.Paused || g.Suspended) && !slices.ContainsFunc(guests, func(other hypervisor.Guest) bool {
		return other.ID == g.ID && (!other.Stopped || other.Suspended)
	}) {
		return fault.New(fault.Unavailable, "the guest %s does not run, so it can be neither paused nor suspended", g.ID)
	}
	disk := image
	if !fromImage {
		if disk, err = h.diskFor(g, guests); err != nil {
			return err
		}
	}
	return h.write(g, disk)
}

// Rename writes the server's id into the file, whose name is the guest's id, and then renames it. A guest whose rename
// is interrupted between both is still that of its server.
func (h *Hypervisor) Rename(ctx context.Context, was, id, server string) error {
	if err := h.begin(ctx, "rename", was); err != nil {
		return err
	}
	for _, name := range []string{was, id} {
		if err := checkID(name); err != nil {
			return err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	guests, err := h.read()
	if err != nil {
		return err
	}
	find := func(id string) int {
		return slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == id })
	}
	old, fresh := find(was), find(id)
	switch {
	case old < 0:
		return nil
	case fresh >= 0:
		return fault.New(fault.Conflict, "there is a guest %s and a guest %s", was, id)
	}
	g := guests[old]
	g.ID, g.Server = id, cmp.Or(server, id)
	disk, err := h.diskAt(was)
	if err != nil {
		return err
	}
	if err := h.writeTo(h.path(was), g, disk); err != nil {
		return err
	}
	if err := h.change(h.path(id), func() error { return os.Rename(h.path(was), h.path(id)) }); err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	return nil
}

// Migrate marks the guest as departed; the hypervisor of the other host builds it.
func (h *Hypervisor) Migrate(ctx context.Context, id string, to hypervisor.Destination) error {
	if err := h.begin(ctx, "migrate", id); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	guests, err := h.read()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(guests, func(g hypervisor.Guest) bool { return g.ID == id })
	switch {
	case i < 0:
		return fault.New(fault.NotFound, "there is no guest %s", id)
	case guests[i].Departed:
		return nil
	case guests[i].Stopped:
		return fault.New(fault.Conflict, "the guest %s does not run", id)
	}
	for _, d := range guests[i].Devices {
		if _, goes := to.Devices[d.ID]; !goes {
			return fault.New(fault.Invalid, "no destination device given for %s of guest %s on host %s", d.ID, id,
				to.Host)
		}
	}
	guests[i].Departed = true
	disk, err := h.diskAt(id)
	if err != nil {
		return err
	}
	return h.write(guests[i], disk)
}

// Destroy removes the guest's file.
func (h *Hypervisor) Destroy(ctx context.Context, id string) error {
	if err := h.begin(ctx, "destroy", id); err != nil {
		return err
	}
	if err := checkID(id); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range []string{h.path(id) + unfinished, h.path(id)} {
		err := h.change(name, func() error { return os.Remove(name) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fault.Wrap(fault.Unavailable, err)
		}
	}
	return nil
}

func (h *Hypervisor) begin(ctx context.Context, operation, guest string) error {
	if h.Fail != nil {
		if err := h.Fail(ctx, operation, guest); err != nil {
			return err
		}
	}
	return fault.Wrap(fault.Unavailable, ctx.Err())
}

func byID(a, b hypervisor.Device) int { return a.ID.Compare(b.ID) }

func ids(g hypervisor.Guest) []device.ID {
	var out []device.ID
	for _, d := range g.Devices {
		out = append(out, d.ID)
	}
	return out
}

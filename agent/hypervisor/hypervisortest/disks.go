package hypervisortest

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

// Home is the name of the host where the guests of RunDisks are at first; Other is another one.
const Home = "home"

// attempt is how long a driver may try to read a disk.
const attempt = 500 * time.Millisecond

// Disks are hosts on which a test can read the disks of guests, and write those of guests that do not run.
type Disks struct {
	// Open returns the driver of a host after a restart of its agent. Each subtest has hosts of its own, by its name. They
	// have a bridge named Bridge.
	Open func(t *testing.T, host string) hypervisor.Hypervisor
	// Write fills a part of a guest's disk, deep inside it, with a byte.
	Write func(t *testing.T, h hypervisor.Hypervisor, id string, content byte)
	// Read returns the byte of this part; 0: the part is blank.
	Read func(t *testing.T, h hypervisor.Hypervisor, id string) byte
}

// RunDisks checks the content of a guest's disk after each operation. A driver whose guests have no disks of their own
// does not run it.
func RunDisks(t *testing.T, d Disks) {
	t.Run("a disk survives all operations on its host", func(t *testing.T) { d.onOneHost(t) })
	t.Run("a disk moves with its guest", func(t *testing.T) { d.move(t) })
	t.Run("a disk is copied on its own host", func(t *testing.T) { d.resize(t) })
	t.Run("a guest whose disk cannot be read is not built", func(t *testing.T) { d.missing(t) })
}

// has checks the content of a guest's disk.
func (d Disks) has(t *testing.T, h hypervisor.Hypervisor, id string, want byte) {
	t.Helper()
	if got := d.Read(t, h, id); got != want {
		t.Errorf("the disk of %s has %#x, not %#x", id, got, want)
	}
}

// marked builds a stopped guest whose disk has some content.
func (d Disks) marked(t *testing.T, h hypervisor.Hypervisor, content byte) hypervisor.Guest {
	t.Helper()
	g := Guest("a")
	g.Stopped = true
	must(t, h.Build(t.Context(), g))
	d.has(t, h, g.ID, 0)
	d.Write(t, h, g.ID, content)
	d.has(t, h, g.ID, content)
	return g
}

// onOneHost starts, stops, changes and renames a guest. Only a rebuild gives it another disk.
func (d Disks) onOneHost(t *testing.T) {
	h := d.Open(t, Home)
	g := d.marked(t, h, 1)
	on, larger := g, g
	on.Stopped, larger.MemoryMB = false, g.MemoryMB*2
	plugged := larger
	plugged.Interfaces = []hypervisor.Interface{{Port: ID("1"), MAC: "fa:16:3e:00:00:01", VIF: "bridge", VNIC: "normal",
		Bridge: Bridge}}
	for _, next := range []hypervisor.Guest{on, g, larger, plugged, larger} {
		must(t, h.Build(t.Context(), next))
		d.has(t, d.Open(t, Home), g.ID, 1)
	}
	must(t, h.Rename(t.Context(), g.ID, ID("b"), g.ID))
	d.has(t, h, ID("b"), 1)
	must(t, h.Rename(t.Context(), ID("b"), g.ID, ""))
	d.has(t, h, g.ID, 1)
	larger.Build = 1
	must(t, h.Build(t.Context(), larger))
	d.has(t, h, g.ID, 0)
}

// moved returns a guest that is stopped at home under the id of a migration, and the guest as it must become.
func (d Disks) moved(t *testing.T, h hypervisor.Hypervisor, content byte) (move string, g hypervisor.Guest) {
	t.Helper()
	g, move = d.marked(t, h, content), ID("e")
	must(t, h.Rename(t.Context(), g.ID, move, g.ID))
	g.DiskFrom = &hypervisor.DiskSource{Host: Home, Guest: move}
	return move, g
}

// move moves a guest, reverts that, moves it again, and confirms that.
func (d Disks) move(t *testing.T) {
	here, there := d.Open(t, Home), d.Open(t, Other)
	move, g := d.moved(t, here, 2)
	g.DiskGB++
	listed := g
	listed.DiskFrom = nil
	for range 2 {
		must(t, there.Build(t.Context(), g))
		has(t, d.Open(t, Other), listed)
		d.has(t, there, g.ID, 2)
		d.Write(t, there, g.ID, 3)
		must(t, there.Build(t.Context(), g)) // it exists, so it keeps its disk
		d.has(t, there, g.ID, 3)
		d.has(t, here, move, 2)
		must(t, there.Destroy(t.Context(), g.ID))
		must(t, here.Rename(t.Context(), move, g.ID, ""))
		d.has(t, here, g.ID, 2)
		must(t, here.Rename(t.Context(), g.ID, move, g.ID))
	}
	must(t, there.Build(t.Context(), g))
	must(t, here.Destroy(t.Context(), move))
	d.has(t, there, g.ID, 2)
	running := listed
	running.Stopped = false
	must(t, there.Build(t.Context(), running))
	must(t, there.Build(t.Context(), listed))
	d.has(t, there, g.ID, 2)
}

// resize copies the disk of a guest on its own host. The guests do not share it.
func (d Disks) resize(t *testing.T) {
	h := d.Open(t, Home)
	move, g := d.moved(t, h, 4)
	must(t, h.Build(t.Context(), g))
	d.Write(t, h, g.ID, 5)
	d.has(t, h, move, 4)
	must(t, h.Destroy(t.Context(), move))
	d.has(t, d.Open(t, Home), g.ID, 5)
}

// missing builds guests from guests that do not exist or that run, until the call is cancelled.
func (d Disks) missing(t *testing.T) {
	here, there := d.Open(t, Home), d.Open(t, Other)
	move, g := d.moved(t, here, 6)
	runs := Guest("c")
	must(t, here.Build(t.Context(), runs))
	for _, id := range []string{ID("d"), runs.ID} {
		g.DiskFrom = &hypervisor.DiskSource{Host: Home, Guest: id}
		ctx, cancel := context.WithTimeout(t.Context(), attempt)
		if err := there.Build(ctx, g); !fault.Is(err, fault.Unavailable) {
			t.Errorf("built from %s: %v", id, err)
		}
		cancel()
		has(t, there)
	}
	d.has(t, here, move, 6)
}

package fake

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/fault"
)

// Disk returns the content of a guest's disk; empty: it is blank.
func (h *Hypervisor) Disk(id string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.diskAt(id)
}

// SetDisk replaces the content of a guest's disk, as the guest itself does it.
func (h *Hypervisor) SetDisk(id, content string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	g, err := h.readGuest(id)
	if err != nil {
		return err
	}
	return h.write(g, content)
}

// diskAt returns the content of a guest's disk.
func (h *Hypervisor) diskAt(id string) (string, error) {
	data, err := os.ReadFile(h.path(id))
	if err != nil {
		return "", fault.New(fault.Unavailable, "the disk of the guest %s cannot be read: %w", id, err)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return "", fault.New(fault.Internal, "%s is not a guest file of this hypervisor: %w", h.path(id),
			err)
	}
	return f.Disk, nil
}

// diskFor returns the content of the disk of a guest that is built: its own, or that of the guest from which it moves.
// A rebuilt guest and another new one have a blank disk.
func (h *Hypervisor) diskFor(g hypervisor.Guest, guests []hypervisor.Guest) (string, error) {
	i := slices.IndexFunc(guests, func(have hypervisor.Guest) bool { return have.ID == g.ID })
	switch {
	case i >= 0 && guests[i].Build == g.Build:
		return h.diskAt(g.ID)
	case i >= 0 || g.DiskFrom == nil:
		return "", nil
	}
	from := g.DiskFrom
	if _, err := os.Stat(h.path(from.Guest)); err == nil { // on this host
		return h.stoppedDisk(from.Guest)
	}
	if h.Peer == nil {
		return "", nil
	}
	peer, err := h.Peer(from.Host)
	if err != nil {
		return "", fault.New(fault.Unavailable, "host %s cannot be reached: %w", from.Host, err)
	}
	return peer.stoppedDisk(from.Guest) // without its lock: files are replaced completely
}

// stoppedDisk returns the content of the disk of a guest that does not run.
func (h *Hypervisor) stoppedDisk(id string) (string, error) {
	g, err := h.readGuest(id)
	if err == nil && !g.Stopped {
		err = fault.New(fault.Unavailable, "the guest %s runs, so its disk is not copied", id)
	}
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err)
	}
	return h.diskAt(id)
}

// withoutSource returns a guest as it is listed.
func withoutSource(g hypervisor.Guest) hypervisor.Guest {
	g.DiskFrom, g.DiskImage = nil, ""
	return g
}

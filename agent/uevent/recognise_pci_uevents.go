// Package uevent receives the kernel's events of devices over a netlink socket (NETLINK_KOBJECT_UEVENT,
// lib/kobject_uevent.c of Linux). Any user may receive them; in a container without the host's network namespace there
// are none.
//
// It reports only that something has changed, never what: the caller reads the present state itself, so a lost message
// loses nothing that the next read does not find. recognise_pci_uevents.go selects the messages;
// listen_linux.go receives them.
package uevent

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"syscall"
)

// messageSize exceeds the size of one message (UEVENT_BUFFER_SIZE is 2048, plus the head).
const messageSize = 8192

// subsystems are those whose events may change what /sys has of PCI devices: the devices themselves, network
// interfaces of their drivers, and the devices of VFs that carry vDPA.
var subsystems = []string{"pci", "net", "vdpa"}

// concerns reports whether a message of the kernel is about PCI devices. It is "<action>@<path>" followed by
// "KEY=value" fields, each ended by a zero byte. Messages of udev start differently and are ignored.
func concerns(message []byte) bool {
	head, rest, _ := bytes.Cut(message, []byte{0})
	if !bytes.Contains(head, []byte{'@'}) {
		return false
	}
	for field := range bytes.SplitSeq(rest, []byte{0}) {
		if name, is := bytes.CutPrefix(field, []byte("SUBSYSTEM=")); is {
			return slices.Contains(subsystems, string(name))
		}
	}
	return false
}

// read receives messages until it fails. When the kernel dropped messages for lack of room, it counts as a change.
func read(socket io.Reader, changed func()) error {
	buffer := make([]byte, messageSize)
	for {
		n, err := socket.Read(buffer)
		switch {
		case errors.Is(err, syscall.ENOBUFS):
			changed()
		case err != nil:
			return err
		case concerns(buffer[:n]):
			changed()
		}
	}
}

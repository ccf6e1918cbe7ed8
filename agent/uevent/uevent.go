// Package uevent hears what the kernel tells of devices that come and go, over a netlink socket (NETLINK_KOBJECT_UEVENT, lib/kobject_uevent.c
// of Linux). Any user may listen; in a container without the host's network namespace nothing is heard.
//
// It says only that something has changed, never what: who listens looks for itself, so that a lost message loses nothing that
// the next look does not find. This file understands; uevent_linux.go listens.
package uevent

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"syscall"
)

// messageSize is more than one message has (UEVENT_BUFFER_SIZE is 2048, and the head).
const messageSize = 8192

// subsystems are those whose changes may change what /sys says of PCI devices: the devices themselves, their drivers' network
// interfaces, and the devices of VFs that carry vDPA.
var subsystems = []string{"pci", "net", "vdpa"}

// concerns says whether a message of the kernel is about PCI devices. It is "<action>@<path>" and then "KEY=value"s, each ended by a
// zero byte; messages of udev, which begin otherwise, are not the kernel's.
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

// read hears messages until it cannot. When the kernel had more to tell than there was room for, something has changed.
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

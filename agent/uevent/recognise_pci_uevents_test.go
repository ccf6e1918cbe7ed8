package uevent

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

func message(parts ...string) string { return strings.Join(parts, "\x00") + "\x00" }

func TestConcerns(t *testing.T) {
	for text, want := range map[string]bool{
		message("add@/devices/pci0000:3a/0000:3b:00.1", "ACTION=add", "SUBSYSTEM=pci", "SEQNUM=7"):  true,
		message("move@/devices/pci0000:3a/0000:3b:00.1/net/ens1v0", "ACTION=move", "SUBSYSTEM=net"): true,
		message("bind@/devices/pci0000:3a/0000:3b:00.1", "SUBSYSTEM=pci", "DRIVER=vfio-pci"):        true,
		message("change@/devices/virtual/block/loop0", "SUBSYSTEM=block", "NAME=SUBSYSTEM=pci"):     false,
		message("libudev", "SUBSYSTEM=pci"):             false,
		message("add@/devices/pci0000:3a/0000:3b:00.1"): false,
		"": false,
	} {
		if got := concerns([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// source is a socket that returns these messages and errors, one at a time.
type source []any

func (s *source) Read(p []byte) (int, error) {
	next := (*s)[0]
	*s = (*s)[1:]
	if err, is := next.(error); is {
		return 0, err
	}
	return copy(p, next.(string)), nil
}

func TestReadReportsChangesAndLostMessages(t *testing.T) {
	end := errors.New("the end")
	s := source{message("add@/x", "SUBSYSTEM=pci"), message("add@/y", "SUBSYSTEM=block"), syscall.ENOBUFS,
		message("remove@/x", "SUBSYSTEM=pci"), end}
	n := 0
	if err := read(&s, func() { n++ }); !errors.Is(err, end) || n != 3 {
		t.Errorf("%d changes, %v", n, err)
	}
}

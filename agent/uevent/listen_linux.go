package uevent

import (
	"context"
	"errors"
	"os"
	"syscall"

	"github.com/openberth/berth/fault"
)

// kernelGroup is the multicast group of the kernel's messages; udev's is 2.
const kernelGroup = 1

// Listen calls changed for each message about PCI devices until ctx ends, and then returns nil. Unavailable: the
// kernel does not let this process receive messages.
func Listen(ctx context.Context, changed func()) error {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK,
		syscall.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fault.New(fault.Unavailable, "cannot open a socket for the kernel's messages: %w", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK, Groups: kernelGroup}); err != nil {
		return errors.Join(fault.New(fault.Unavailable, "cannot listen for the kernel's messages: %w", err),
			syscall.Close(fd))
	}
	socket := os.NewFile(uintptr(fd), "uevent")
	stop := context.AfterFunc(ctx, func() { _ = socket.Close() }) // wakes the reader; a second Close below finds it closed
	defer stop()
	defer socket.Close()
	err = read(socket, changed)
	if ctx.Err() != nil {
		return nil
	}
	return fault.New(fault.Unavailable, "receiving the kernel's messages failed: %w", err)
}

// Package diskimage recognises the formats of disk images, and refuses images that refer to other files, that are not
// what they are declared to be, or that are damaged.
//
// An image of a user is opened by programs that run with more rights than the user. A qcow2 image may name a backing
// file or an external data file, and such a program reads the named file of the host. A file that is declared as raw
// and that another format claims has the same effect in every program that detects the format itself. So the format is
// determined here, and both are refused, before any such program opens the file. The formats and their signatures are
// those of the format inspector of oslo.utils, of QEMU and of libvirt; a file is refused if one of them could claim it.
package diskimage

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/openberth/berth/fault"
)

// Format is the name of a format, as in disk_format of the Image API.
type Format string

// The formats that guests can boot from, and parts of a system that have no format of their own.
const (
	Raw     Format = "raw"
	QCOW2   Format = "qcow2"
	ISO     Format = "iso"
	Kernel  Format = "aki" // a kernel
	Ramdisk Format = "ari" // an initial file system
	Machine Format = "ami" // a file system without a partition table
)

// Formats lists the formats that Inspect accepts.
func Formats() []Format { return []Format{Raw, QCOW2, ISO, Kernel, Ramdisk, Machine} }

// HeadBytes is how many of its first bytes the format of an image is recognised by: all, if the image is smaller. A
// descriptor of VMDK has at most this size.
const HeadBytes = 1 << 20

// tailBytes is how many of its last bytes the format of an image is recognised by.
const tailBytes = 512

// Info describes an image.
type Info struct {
	Format      Format
	VirtualSize int64 // in bytes, of the disk that a guest sees
}

// Inspect checks an image of size bytes that is declared to have a format. It returns fault.Invalid if the image is
// empty, if another format could claim it, if it refers to another file, is encrypted or damaged, or needs features
// that are not known; fault.Unavailable if it cannot be read.
func Inspect(image io.ReaderAt, size int64, declared Format) (Info, error) {
	if !slices.Contains(Formats(), declared) {
		return Info{}, invalid("the format %q is not supported; use one of %v, or convert the image with qemu-img convert",
			declared, Formats())
	}
	if size == 0 {
		return Info{}, invalid("the image is empty; upload a file that has data")
	}
	head, err := readPart(image, 0, min(size, HeadBytes))
	if err != nil {
		return Info{}, err
	}
	found := claims(head)
	switch declared {
	case QCOW2:
		if err := onlyClaim(found, QCOW2); err != nil {
			return Info{}, err
		}
		return inspectQCOW2(image, head, size)
	case ISO:
		if err := onlyClaim(without(found, partitioned), ISO); err != nil {
			return Info{}, err
		}
		return Info{ISO, size}, checkVolumeSize(head, size)
	}
	tail, err := readPart(image, max(0, size-tailBytes), min(size, tailBytes))
	if err != nil {
		return Info{}, err
	}
	return Info{declared, size}, inspectRaw(head, append(found, tailClaims(tail)...), declared)
}

// inspectRaw checks an image that must not have a format.
func inspectRaw(head []byte, found []string, declared Format) error {
	others := without(found, partitioned)
	if slices.Equal(others, []string{string(ISO)}) && len(others) < len(found) {
		others = nil // a disk with a partition table, that can also be written to a CD
	}
	if len(others) > 0 {
		return invalid("the image is declared as %s and %s; correct disk_format, or convert the image with "+
			"qemu-img convert -O raw", declared, described(others))
	}
	if declared == Raw && len(found) > 0 {
		return checkPartitionTable(head)
	}
	return nil
}

// onlyClaim returns fault.Invalid if the image is not only of the declared format.
func onlyClaim(found []string, declared Format) error {
	switch {
	case !slices.Contains(found, string(declared)):
		return invalid("the image is declared as %s and %s; correct disk_format, or convert the image with "+
			"qemu-img convert", declared, described(found))
	case len(found) > 1:
		return invalid("the image is declared as %s and is also %s; convert it with qemu-img convert", declared,
			strings.Join(without(found, string(declared)), " and "))
	}
	return nil
}

// Detect returns the format of an image from its first HeadBytes bytes: Raw if no known format claims them.
// fault.Invalid: it has a format that Inspect does not accept, or several.
func Detect(head []byte) (Format, error) {
	found := without(claims(head), partitioned)
	switch {
	case len(found) == 0:
		return Raw, nil
	case len(found) == 1 && (found[0] == string(QCOW2) || found[0] == string(ISO)):
		return Format(found[0]), nil
	}
	return "", invalid("the image %s; convert it with qemu-img convert -O qcow2", described(found))
}

// described returns what an image is, for a sentence.
func described(found []string) string {
	if len(found) == 0 {
		return "has no known header"
	}
	return "can be read as " + strings.Join(found, " and ")
}

// without returns the names except one.
func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// readPart reads n bytes at an offset.
func readPart(image io.ReaderAt, offset, n int64) ([]byte, error) {
	part := make([]byte, n)
	if read, err := image.ReadAt(part, offset); err != nil && (!errors.Is(err, io.EOF) || int64(read) < n) {
		return nil, fault.New(fault.Unavailable, "the image cannot be read: %w", err)
	}
	return part, nil
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "%s", fmt.Sprintf(format, args...))
}

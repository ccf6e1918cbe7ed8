// Package diskformat inspects the beginning of a disk image, before any other program opens it.
//
// An image comes from a user. A qcow2 image can name another file, as its backing file or its data file, which QEMU
// then opens on the host: with such an image a guest reads any file of the host. So these images are rejected here.
package diskformat

import (
	"bytes"
	"encoding/binary"

	"github.com/openberth/berth/fault"
)

// HeaderSize is how many bytes of a file Inspect needs; of a smaller file it needs all.
const HeaderSize = 64 << 10

// Format is the format of a disk image, in the words of the Image API and of qemu-img.
type Format string

// The formats that guests can boot from.
const (
	Raw   Format = "raw"
	QCOW2 Format = "qcow2"
)

// Info describes a disk image.
type Info struct {
	Format Format
	Size   int64 // of the disk, in bytes
}

const op = "diskformat.Inspect"

// maxSize is the largest disk, in bytes: 64 TiB.
const maxSize = 64 << 40

// others are formats that are not supported, by their first bytes.
var others = map[string]string{"KDMV": "vmdk", "# Disk DescriptorFile": "vmdk", "conectix": "vpc (VHD)",
	"vhdxfile": "vhdx", "QED\x00": "qed", "LUKS\xba\xbe": "luks"}

// Inspect returns the description of an image with a declared format. head is the beginning of the file, and size the
// length of the whole. The fault is Invalid if the image is not of this format, or refers to other files.
func Inspect(declared string, head []byte, size int64) (Info, error) {
	switch Format(declared) {
	case QCOW2:
		return inspectQCOW2(head)
	case Raw:
		// A guest reads the bytes as they are, so that no header matters.
		if size <= 0 || size > maxSize {
			return Info{}, fault.New(fault.Invalid, op, "the image has %d bytes; a disk has 1 byte to 64 TiB", size)
		}
		return Info{Raw, size}, nil
	}
	for magic, name := range others {
		if bytes.HasPrefix(head, []byte(magic)) {
			declared = name
		}
	}
	return Info{}, fault.New(fault.Invalid, op, "the disk format %q is not supported; convert the image with qemu-img to "+
		"qcow2 or raw", declared)
}

// The fields of a qcow2 header, by their offset; all are big-endian.
const (
	atVersion, atBacking, atClusterBits, atSize, atCrypt = 4, 8, 20, 24, 32
	atIncompatible, atHeaderLength                       = 72, 100
	version2Length, version3Length                       = 72, 104
)

// Incompatible features of version 3 that are accepted; the others are corrupt, an external data file, and later ones.
const (
	dirty           = 1 << 0
	dataFile        = 1 << 2
	compressionType = 1 << 3
	extendedL2      = 1 << 4
)

// dataFileName is the header extension with the name of the external data file.
const dataFileName = 0x44415441

// inspectQCOW2 checks a qcow2 header.
func inspectQCOW2(head []byte) (Info, error) {
	invalid := func(format string, args ...any) (Info, error) {
		return Info{}, fault.New(fault.Invalid, op, format, args...)
	}
	if len(head) < version2Length || !bytes.HasPrefix(head, []byte("QFI\xfb")) {
		return invalid("the image is declared as qcow2 and is not; set its disk_format")
	}
	word := func(at int) uint32 { return binary.BigEndian.Uint32(head[at:]) }
	long := func(at int) uint64 { return binary.BigEndian.Uint64(head[at:]) }
	extensions := version2Length
	switch version := word(atVersion); {
	case version == 3 && len(head) >= version3Length:
		features := long(atIncompatible)
		if features&dataFile != 0 {
			return invalid("the image keeps its data in another file, which is not accepted; convert it with qemu-img")
		}
		if unknown := features &^ (dirty | compressionType | extendedL2); unknown != 0 {
			return invalid("the image has features that are not accepted (%#x); convert it with qemu-img", unknown)
		}
		extensions = int(word(atHeaderLength))
	case version != 2:
		return invalid("the image has version %d of qcow2; convert it with qemu-img", version)
	}
	size := long(atSize)
	switch {
	case long(atBacking) != 0:
		return invalid("the image has a backing file, which is not accepted; convert it with qemu-img")
	case word(atCrypt) != 0:
		return invalid("the image is encrypted, which is not supported; decrypt it with qemu-img")
	case word(atClusterBits) < 9 || word(atClusterBits) > 21:
		return invalid("the image is not valid: its clusters have 2^%d bytes", word(atClusterBits))
	case size == 0 || size > maxSize:
		return invalid("the image has a disk of %d bytes; a disk has 1 byte to 64 TiB", size)
	}
	if err := checkExtensions(head, extensions); err != nil {
		return Info{}, err
	}
	return Info{QCOW2, int64(size)}, nil
}

// checkExtensions returns fault.Invalid if the header extensions name a data file, or do not end within head.
func checkExtensions(head []byte, at int) error {
	const prefix, align = 8, 8
	for at >= version2Length && at+prefix <= len(head) {
		kind, length := binary.BigEndian.Uint32(head[at:]), int(binary.BigEndian.Uint32(head[at+4:]))
		if kind == 0 {
			return nil
		}
		if kind == dataFileName {
			return fault.New(fault.Invalid, op, "the image names a data file, which is not accepted; convert it with qemu-img")
		}
		if length > len(head) {
			break
		}
		at += prefix + (length+align-1)/align*align
	}
	return fault.New(fault.Invalid, op, "the image is not valid: the extensions of its header have no end")
}

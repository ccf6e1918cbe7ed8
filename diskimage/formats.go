// Package diskimage recognises the formats of disk images by their first bytes, and refuses images that refer to other
// files or that are not what they are declared to be.
//
// An image of a user is opened by programs that run with more rights than the user. A qcow2 image may name a backing
// file or an external data file, and such a program reads the named file of the host. A file that is declared as raw
// and begins like a qcow2 image has the same effect in every program that detects the format itself. So the format is
// determined here, and both are refused, before any such program opens the file.
package diskimage

import (
	"bytes"
	"encoding/binary"
	"fmt"

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

// HeadBytes is how many bytes of an image Inspect needs: all, if the image is smaller.
const HeadBytes = 64 << 10

// Info describes an image.
type Info struct {
	Format      Format
	VirtualSize int64 // in bytes, of the disk that a guest sees
}

// Inspect checks an image of size bytes that is declared to have a format. head are its first HeadBytes bytes. It
// returns fault.Invalid if the image has another format, refers to another file, is encrypted, or needs features that
// are not known.
func Inspect(head []byte, size int64, declared Format) (Info, error) {
	found := recognise(head)
	switch declared {
	case QCOW2:
		if found != string(QCOW2) {
			return Info{}, invalid("the image is declared as qcow2 and %s; correct disk_format, or convert the image",
				described(found))
		}
		return inspectQCOW2(head)
	case ISO:
		if found != string(ISO) {
			return Info{}, invalid("the image is declared as iso and %s; correct disk_format", described(found))
		}
	case Raw, Kernel, Ramdisk, Machine:
		// The beginning of an ISO image is free, so that a disk image can be an ISO image, too.
		if found != "" && found != string(ISO) {
			return Info{}, invalid("the image is declared as %s and %s; correct disk_format, or convert the image with "+
				"qemu-img convert -O raw", declared, described(found))
		}
	default:
		return Info{}, invalid("the format %q is not supported; use one of %v, or convert the image with qemu-img convert",
			declared, Formats())
	}
	return Info{Format: declared, VirtualSize: size}, nil
}

// Detect returns the format of an image from its first HeadBytes bytes: Raw if it has no header of a known format.
// fault.Invalid: it has a format that Inspect does not accept.
func Detect(head []byte) (Format, error) {
	found := recognise(head)
	switch Format(found) {
	case "":
		return Raw, nil
	case QCOW2, ISO:
		return Format(found), nil
	}
	return "", invalid("the image %s; convert it with qemu-img convert -O qcow2", described(found))
}

// described returns what an image is, for a sentence.
func described(found string) string {
	if found == "" {
		return "has no known header"
	}
	return "begins like a " + found + " image"
}

// headers are the bytes at an offset by which formats other than qcow2 are recognised.
var headers = []struct {
	name   string
	offset int
	bytes  string
}{
	{string(QCOW2), 0, qcowMagic},
	{"qed", 0, "QED\x00"},
	{"vmdk", 0, "KDMV"},
	{"vmdk", 0, "COWD"},
	{"vmdk", 0, "# Disk DescriptorFile"},
	{"vhd", 0, "conectix"},
	{"vhdx", 0, "vhdxfile"},
	{"vdi", 0x40, "\x7f\x10\xda\xbe"},
	{"luks", 0, "LUKS\xba\xbe"},
	{"parallels", 0, "WithoutFreeSpace"},
	{"parallels", 0, "WithouFreSpacExt"},
	{"cloop", 0, "#!/bin/sh\n#V2.0 Format\n"},
	{"bochs", 0, "Bochs Virtual HD Image"},
	{string(ISO), 0x8001, "CD001"},
}

// recognise returns the name of the format that the bytes have; empty: none with a header.
func recognise(head []byte) string {
	for _, h := range headers {
		if len(head) >= h.offset && bytes.HasPrefix(head[h.offset:], []byte(h.bytes)) {
			return h.name
		}
	}
	return ""
}

const qcowMagic = "QFI\xfb"

// The fields of a qcow2 header, at their offsets, and the types of its extensions; all numbers are big-endian
// (docs/interop/qcow2.txt of QEMU).
const (
	atVersion     = 4
	atBackingFile = 8 // 8 bytes: offset of the name of the backing file
	atSize        = 24
	atEncryption  = 32
	atFeatures    = 72  // 8 bytes, from version 3 on: features without which a program must not open the image
	atLength      = 100 // length of the header, from version 3 on
	version2Bytes = 72
	version3Bytes = 104

	featureDirty       = 1 << 0
	featureCorrupt     = 1 << 1
	featureDataFile    = 1 << 2
	featureCompression = 1 << 3
	featureExtendedL2  = 1 << 4

	extensionEnd      = 0
	extensionBacking  = 0xe2792aca // the format of the backing file
	extensionDataFile = 0x44415441 // the name of the external data file
)

// maxVirtualSize is the largest disk that is accepted: an exbibyte.
const maxVirtualSize = 1 << 60

// inspectQCOW2 checks the header of a qcow2 image.
func inspectQCOW2(head []byte) (Info, error) {
	if len(head) < version2Bytes {
		return Info{}, invalid("the qcow2 header is incomplete; upload the image again")
	}
	version, length := binary.BigEndian.Uint32(head[atVersion:]), uint64(version2Bytes)
	switch {
	case version == 3 && len(head) < version3Bytes:
		return Info{}, invalid("the qcow2 header is incomplete; upload the image again")
	case version == 3:
		length = uint64(binary.BigEndian.Uint32(head[atLength:]))
		if err := checkFeatures(binary.BigEndian.Uint64(head[atFeatures:])); err != nil {
			return Info{}, err
		}
	case version != 2:
		return Info{}, invalid("version %d of qcow2 is not supported; convert the image with qemu-img convert -O qcow2",
			version)
	}
	if binary.BigEndian.Uint64(head[atBackingFile:]) != 0 {
		return Info{}, invalid("the qcow2 image has a backing file; write one image without it with " +
			"qemu-img convert -O qcow2")
	}
	if binary.BigEndian.Uint32(head[atEncryption:]) != 0 {
		return Info{}, invalid("the qcow2 image is encrypted; decrypt it with qemu-img convert -O qcow2")
	}
	size := binary.BigEndian.Uint64(head[atSize:])
	if size == 0 || size > maxVirtualSize {
		return Info{}, invalid("the qcow2 image has a disk of %d bytes; a disk has 1 to %d bytes", size,
			int64(maxVirtualSize))
	}
	return Info{Format: QCOW2, VirtualSize: int64(size)}, checkExtensions(head, length)
}

// checkFeatures refuses an external data file and features that are not known.
func checkFeatures(features uint64) error {
	switch {
	case features&featureDataFile != 0:
		return invalid("the qcow2 image has an external data file; write one image without it with " +
			"qemu-img convert -O qcow2")
	case features&featureCorrupt != 0:
		return invalid("the qcow2 image is marked as corrupt; repair it with qemu-img check -r all")
	case features&^(featureDirty|featureCompression|featureExtendedL2) != 0:
		return invalid("the qcow2 image needs features that are not known (%#x); convert it with qemu-img convert -O qcow2",
			features)
	}
	return nil
}

// checkExtensions refuses header extensions that name another file. They follow the header: a type, a length, and that
// many bytes, filled up to a multiple of 8.
func checkExtensions(head []byte, at uint64) error {
	if at < version2Bytes || at%8 != 0 && at != version2Bytes {
		return invalid("the qcow2 header has a length of %d bytes, which is not valid; upload the image again", at)
	}
	for {
		if at+8 > uint64(len(head)) {
			return invalid("the qcow2 header is longer than %d bytes; convert the image with qemu-img convert -O qcow2",
				len(head))
		}
		kind, length := binary.BigEndian.Uint32(head[at:]), uint64(binary.BigEndian.Uint32(head[at+4:]))
		switch kind {
		case extensionEnd:
			return nil
		case extensionBacking, extensionDataFile:
			return invalid("the qcow2 image names another file; write one image without it with qemu-img convert -O qcow2")
		}
		at += 8 + (length+7)/8*8
	}
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, "diskimage.Inspect", "%s", fmt.Sprintf(format, args...))
}

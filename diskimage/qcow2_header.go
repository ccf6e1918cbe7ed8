package diskimage

import (
	"encoding/binary"
	"io"
)

const qcowMagic = "QFI\xfb"

// The fields of a qcow2 header, at their offsets, and the types of its extensions; all numbers are big-endian
// (docs/interop/qcow2.txt of QEMU).
const (
	atVersion       = 4
	atBackingFile   = 8 // 8 bytes: offset of the name of the backing file
	atClusterBits   = 20
	atSize          = 24
	atEncryption    = 32
	atL1Entries     = 36
	atL1Table       = 40
	atRefcounts     = 48 // offset of the table of reference counts
	atRefClusters   = 56 // its size
	atSnapshots     = 60 // number of snapshots
	atSnapshotTable = 64
	atFeatures      = 72  // 8 bytes, from version 3 on: features without which a program must not open the image
	atRefcountOrder = 96  // from version 3 on: binary logarithm of the bits of a reference count
	atLength        = 100 // length of the header, from version 3 on
	atCompression   = 104 // type of compression, if the header is long enough
	version2Bytes   = 72
	version3Bytes   = 104

	featureDirty       = 1 << 0
	featureCorrupt     = 1 << 1
	featureDataFile    = 1 << 2
	featureCompression = 1 << 3
	featureExtendedL2  = 1 << 4

	extensionEnd      = 0
	extensionBacking  = 0xe2792aca // the format of the backing file
	extensionDataFile = 0x44415441 // the name of the external data file
)

// Bounds of QEMU.
const (
	minClusterBits    = 9
	maxClusterBits    = 21
	minExtendedBits   = 14 // of the clusters of an image with extended L2 entries
	maxRefcountOrder  = 6
	maxL1Bytes        = 32 << 20
	maxRefcountsBytes = 8 << 20
	maxSnapshots      = 65536
	snapshotBytes     = 40 // of the shortest entry of the table of snapshots
	compressionZstd   = 1
)

// maxVirtualSize is the largest disk that is accepted: an exbibyte.
const maxVirtualSize = 1 << 60

// header is the beginning of a qcow2 image.
type header struct {
	clusterBits uint
	features    uint64
	size        uint64 // of the disk
	l1          table
	refcounts   table
	snapshots   table
}

// table is an array in the file.
type table struct{ offset, entries uint64 }

// inspectQCOW2 checks a qcow2 image of fileSize bytes. head are its first bytes.
func inspectQCOW2(image io.ReaderAt, head []byte, fileSize int64) (Info, error) {
	h, err := parseHeader(head)
	if err != nil {
		return Info{}, err
	}
	f := tables{image: image, header: h, size: uint64(fileSize)}
	if err := f.check(); err != nil {
		return Info{}, err
	}
	return Info{Format: QCOW2, VirtualSize: int64(h.size)}, nil
}

// parseHeader checks the header and its extensions.
func parseHeader(head []byte) (header, error) {
	if len(head) < version2Bytes {
		return header{}, invalid("the qcow2 header is incomplete; upload the image again")
	}
	be := binary.BigEndian
	h := header{clusterBits: uint(be.Uint32(head[atClusterBits:])), size: be.Uint64(head[atSize:]),
		l1:        table{be.Uint64(head[atL1Table:]), uint64(be.Uint32(head[atL1Entries:]))},
		refcounts: table{be.Uint64(head[atRefcounts:]), uint64(be.Uint32(head[atRefClusters:]))},
		snapshots: table{be.Uint64(head[atSnapshotTable:]), uint64(be.Uint32(head[atSnapshots:]))}}
	length := uint64(version2Bytes)
	switch version := be.Uint32(head[atVersion:]); {
	case version == 3 && len(head) < version3Bytes:
		return header{}, invalid("the qcow2 header is incomplete; upload the image again")
	case version == 3:
		length, h.features = uint64(be.Uint32(head[atLength:])), be.Uint64(head[atFeatures:])
		if err := checkVersion3(head, length, h.features); err != nil {
			return header{}, err
		}
	case version != 2:
		return header{}, invalid("version %d of qcow2 is not supported; convert the image with qemu-img convert -O qcow2",
			version)
	}
	if be.Uint64(head[atBackingFile:]) != 0 {
		return header{}, invalid("the qcow2 image has a backing file; write one image without it with " +
			"qemu-img convert -O qcow2")
	}
	if be.Uint32(head[atEncryption:]) != 0 {
		return header{}, invalid("the qcow2 image is encrypted; decrypt it with qemu-img convert -O qcow2")
	}
	if h.size == 0 || h.size > maxVirtualSize {
		return header{}, invalid("the qcow2 image has a disk of %d bytes; a disk has 1 to %d bytes", h.size,
			int64(maxVirtualSize))
	}
	if err := checkClusterBits(h); err != nil {
		return header{}, err
	}
	return h, checkExtensions(head, length)
}

// checkClusterBits checks the size of the clusters.
func checkClusterBits(h header) error {
	lowest := uint(minClusterBits)
	if h.features&featureExtendedL2 != 0 {
		lowest = minExtendedBits
	}
	if h.clusterBits < lowest || h.clusterBits > maxClusterBits {
		return damaged("cluster_bits is %d, and %d to %d are valid", h.clusterBits, lowest, maxClusterBits)
	}
	return nil
}

// checkVersion3 refuses an external data file, features that are not known, and fields that are not valid.
func checkVersion3(head []byte, length, features uint64) error {
	switch {
	case features&featureDataFile != 0:
		return invalid("the qcow2 image has an external data file; write one image without it with " +
			"qemu-img convert -O qcow2")
	case features&featureCorrupt != 0:
		return invalid("the qcow2 image is marked as corrupt; repair it with qemu-img check -r all")
	case features&^(featureDirty|featureCompression|featureExtendedL2) != 0:
		return invalid("the qcow2 image needs features that are not known (%#x); convert it with qemu-img convert -O qcow2",
			features)
	case length < version3Bytes || length > uint64(len(head)):
		return invalid("the qcow2 header has a length of %d bytes, which is not valid; upload the image again", length)
	case binary.BigEndian.Uint32(head[atRefcountOrder:]) > maxRefcountOrder:
		return damaged("refcount_order is %d, and 0 to %d are valid", binary.BigEndian.Uint32(head[atRefcountOrder:]),
			maxRefcountOrder)
	}
	compression := byte(0)
	if length > atCompression {
		compression = head[atCompression]
	}
	if flagged := features&featureCompression != 0; flagged != (compression != 0) || compression > compressionZstd {
		return invalid("the qcow2 image has a type of compression that is not known (%d); convert it with "+
			"qemu-img convert -O qcow2", compression)
	}
	return nil
}

// checkExtensions refuses header extensions that name another file. They follow the header: a type, a length, and that
// many bytes, filled up to a multiple of 8.
func checkExtensions(head []byte, at uint64) error {
	if at%8 != 0 {
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

// damaged returns the fault of an image whose structure is not valid.
func damaged(format string, args ...any) error {
	return invalid("the qcow2 image is damaged: "+format+"; make it again with qemu-img convert -O qcow2, and check it "+
		"with qemu-img check", args...)
}

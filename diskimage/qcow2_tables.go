package diskimage

import (
	"encoding/binary"
	"io"
	"slices"
)

// The bits of entries of the tables of a qcow2 image.
const (
	offsetBits      = 1<<56 - 1<<9 // of the place of a cluster
	l1Reserved      = 1<<9 - 1 | 0x7f<<56
	refcountBits    = ^uint64(1<<9 - 1)
	entryCompressed = 1 << 62
	entryBytes      = 8
	l2Reserved      = 0x3f<<56 | 1<<9 - 1<<1
	compressedUnit  = 512
)

// tables checks that the tables of a qcow2 image are where they can be, and that everything they name is in the file.
type tables struct {
	image io.ReaderAt
	header
	size uint64 // of the file
}

// check checks the table of reference counts, the L1 table and all L2 tables. Each cluster is read once, so that the
// time is proportional to the size of the file.
func (t *tables) check() error {
	if err := t.checkRefcounts(); err != nil {
		return err
	}
	if s := t.snapshots; s.entries > maxSnapshots || s.entries > 0 && !t.isTable(s.offset, s.entries*snapshotBytes) {
		return damaged("its table of %d snapshots at %#x is not valid", s.entries, s.offset)
	}
	perL2 := t.clusterSize() / t.l2EntryBytes()
	needed := (t.header.size-1)/(t.clusterSize()*perL2) + 1
	switch l1 := t.l1; {
	case l1.entries*entryBytes > maxL1Bytes:
		return damaged("its L1 table has %d entries, and %d is the limit", l1.entries, maxL1Bytes/entryBytes)
	case l1.entries < needed:
		return damaged("its L1 table has %d entries, and a disk of %d bytes needs %d", l1.entries, t.header.size, needed)
	case !t.isTable(l1.offset, l1.entries*entryBytes):
		return t.outside("its L1 table", l1.offset)
	}
	entries, err := t.read(t.l1.offset, t.l1.entries)
	if err != nil {
		return err
	}
	var l2 []uint64
	for _, entry := range entries {
		offset := entry & offsetBits
		if entry&l1Reserved != 0 || offset != 0 && !t.isTable(offset, t.clusterSize()) {
			return t.outside("an L2 table", entry)
		}
		if offset != 0 {
			l2 = append(l2, offset)
		}
	}
	slices.Sort(l2)
	for i, offset := range l2 {
		if i > 0 && offset == l2[i-1] {
			return damaged("two entries of its L1 table name the L2 table at byte %d", offset)
		}
		if err := t.checkL2(offset); err != nil {
			return err
		}
	}
	return nil
}

func (t *tables) clusterSize() uint64 { return 1 << t.clusterBits }

// l2EntryBytes returns the size of an entry of an L2 table.
func (t *tables) l2EntryBytes() uint64 {
	if t.features&featureExtendedL2 != 0 {
		return 2 * entryBytes
	}
	return entryBytes
}

// isTable reports whether a table of n bytes at an offset is in the file, behind the header, at the start of a cluster.
func (t *tables) isTable(offset, n uint64) bool {
	return offset != 0 && offset%t.clusterSize() == 0 && offset <= t.size && n <= t.size-offset
}

// isData reports whether n bytes of data at an offset are in the file. The last cluster of a file may be incomplete.
func (t *tables) isData(offset, n uint64) bool {
	end := (t.size-1)/t.clusterSize()*t.clusterSize() + t.clusterSize()
	return offset != 0 && offset < t.size && n <= end-offset
}

// outside is the fault of a part that is not where it can be.
func (t *tables) outside(what string, offset uint64) error {
	return damaged("%s is at %#x, which is not a cluster inside the file of %d bytes", what, offset, t.size)
}

// checkRefcounts checks where the reference counts are.
func (t *tables) checkRefcounts() error {
	r := t.refcounts
	switch {
	case r.entries == 0 || r.entries > maxRefcountsBytes>>t.clusterBits:
		return damaged("its table of reference counts has %d clusters", r.entries)
	case !t.isTable(r.offset, r.entries<<t.clusterBits):
		return t.outside("its table of reference counts", r.offset)
	}
	blocks, err := t.read(r.offset, r.entries<<t.clusterBits/entryBytes)
	if err != nil {
		return err
	}
	for _, entry := range blocks {
		if entry != 0 && (entry&^refcountBits != 0 || !t.isTable(entry, t.clusterSize())) {
			return t.outside("a block of reference counts", entry)
		}
	}
	return nil
}

// checkL2 checks that all clusters which an L2 table names are in the file.
func (t *tables) checkL2(at uint64) error {
	words, err := t.read(at, t.clusterSize()/entryBytes)
	if err != nil {
		return err
	}
	for i := 0; i < len(words); i += int(t.l2EntryBytes() / entryBytes) {
		entry := words[i]
		if entry&entryCompressed != 0 {
			places := 62 - (t.clusterBits - 8) // number of bits of the offset; the others are the number of further sectors
			offset := entry & (1<<places - 1)
			sectors := entry &^ (3 << 62) >> places
			n := (sectors+1)*compressedUnit - offset%compressedUnit
			if !t.isData(offset, n) {
				return t.outside("a compressed cluster", offset)
			}
			continue
		}
		if entry&l2Reserved != 0 {
			return damaged("its L2 table at byte %d has the entry %#x, which is not valid", at, entry)
		}
		if offset := entry & offsetBits; offset != 0 && (offset%t.clusterSize() != 0 || !t.isData(offset, t.clusterSize())) {
			return t.outside("a cluster of data", offset)
		}
	}
	return nil
}

// read returns the numbers of a table.
func (t *tables) read(offset, entries uint64) ([]uint64, error) {
	data, err := readPart(t.image, int64(offset), int64(entries*entryBytes))
	if err != nil {
		return nil, err
	}
	numbers := make([]uint64, entries)
	for i := range numbers {
		numbers[i] = binary.BigEndian.Uint64(data[i*entryBytes:])
	}
	return numbers, nil
}

package configdrive

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// The layout of the file system (ECMA-119), in sectors. Each directory has one sector.
const (
	sector          = 2048
	descriptorAt    = 16
	terminatorAt    = 17
	littleTableAt   = 18
	bigTableAt      = 19
	rootAt          = 20
	directoryFlag   = 2
	descriptorBytes = 34 // of a directory record with a name of one byte
)

// image returns an ISO 9660 file system with a label: directories, each in the one before it, and files in the last.
// File names have a dot. Linux shows all names in lower case, without a version and without a dot at the end.
func image(label string, directories []string, files map[string][]byte) []byte {
	names := slices.Sorted(maps.Keys(files))
	filesAt := rootAt + len(directories) + 1
	at, total := map[string]int{}, filesAt
	for _, name := range names {
		at[name] = total
		total += (len(files[name]) + sector - 1) / sector
	}
	out := make([]byte, total*sector)
	part := func(n int) []byte { return out[n*sector : (n+1)*sector] }
	tables := [2][]byte{pathTable(directories, binary.LittleEndian), pathTable(directories, binary.BigEndian)}
	copy(part(littleTableAt), tables[0])
	copy(part(bigTableAt), tables[1])
	writeDescriptor(part(descriptorAt), label, total, len(tables[0]))
	copy(part(terminatorAt), "\xffCD001\x01")
	for i := range len(directories) + 1 {
		here := rootAt + i
		content := slices.Concat(record("\x00", here, sector, directoryFlag),
			record("\x01", max(here-1, rootAt), sector, directoryFlag))
		if i < len(directories) {
			content = append(content, record(directories[i], here+1, sector, directoryFlag)...)
		} else {
			for _, name := range names {
				content = append(content, record(name+";1", at[name], len(files[name]), 0)...)
			}
		}
		copy(part(here), content)
	}
	for _, name := range names {
		copy(out[at[name]*sector:], files[name])
	}
	return out
}

// writeDescriptor writes the primary volume descriptor.
func writeDescriptor(d []byte, label string, sectors, tableBytes int) {
	spaces := func(from, to int, text string) {
		copy(d[from:to], text+strings.Repeat(" ", to-from-len(text)))
	}
	copy(d, "\x01CD001\x01")
	spaces(8, 40, "")
	spaces(40, 72, label)
	copy(d[80:], both32(sectors))
	copy(d[120:], both16(1)) // volumes in the set
	copy(d[124:], both16(1)) // the number of this one
	copy(d[128:], both16(sector))
	copy(d[132:], both32(tableBytes))
	binary.LittleEndian.PutUint32(d[140:], littleTableAt)
	binary.BigEndian.PutUint32(d[148:], bigTableAt)
	copy(d[156:], record("\x00", rootAt, sector, directoryFlag))
	spaces(190, 813, "")
	for _, date := range []int{813, 830, 847, 864} {
		copy(d[date:], "0000000000000000\x00") // not specified
	}
	d[881] = 1 // version of the structure
}

// pathTable returns the path table: each directory with its parent's number.
func pathTable(directories []string, order binary.AppendByteOrder) (table []byte) {
	for i, name := range append([]string{"\x00"}, directories...) {
		table = append(table, byte(len(name)), 0)
		table = order.AppendUint32(table, uint32(rootAt+i))
		table = order.AppendUint16(table, uint16(max(i, 1)))
		table = append(table, name...)
		if len(name)%2 == 1 {
			table = append(table, 0)
		}
	}
	return table
}

// record returns a directory record.
func record(name string, at, size int, flags byte) []byte {
	length := (descriptorBytes - 1 + len(name) + 1) &^ 1
	r := make([]byte, length)
	r[0] = byte(length)
	copy(r[2:], both32(at))
	copy(r[10:], both32(size))
	copy(r[18:], []byte{100, 1, 1}) // 2000-01-01: the drive does not depend on the time
	r[25] = flags
	copy(r[28:], both16(1))
	r[32] = byte(len(name))
	copy(r[33:], name)
	return r
}

// both32 returns a number in both byte orders.
func both32(n int) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(n)), uint32(n))
}

// both16 returns a small number in both byte orders.
func both16(n int) []byte {
	return binary.BigEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, uint16(n)), uint16(n))
}

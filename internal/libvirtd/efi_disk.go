package libvirtd

import "encoding/binary"

// The layout of the disk of EFIDisk, in sectors: a boot record, and a partition with a FAT12 file system of one
// allocation table, a root directory of one sector, and clusters of one sector.
const (
	sector      = 512
	fatSectors  = 6
	fileSectors = 2
	clusters    = 1 + 1 + fatSectors + 1 // of the disk before the first cluster, which has the number 2
)

// EFIDisk returns a disk that UEFI boots. Its unsigned boot loader prints a text to the first serial port and halts.
func EFIDisk(text string) []byte {
	disk := withBootRecord(make([]byte, 1<<20))
	disk[446+4] = 0xef // an EFI system partition
	boot := disk[sector:]
	copy(boot, []byte{0xeb, 0x3c, 0x90, 'b', 'e', 'r', 't', 'h', ' ', ' ', ' ', 0, sector >> 8, 1, 1, 0, 1, 16, 0, 0, 7,
		0xf8, fatSectors, 0}) // one sector in a cluster and before the table; 16 names in the root; 0x700 sectors
	copy(boot[36:], []byte{0x80, 0, 0x29, 1, 2, 3, 4})
	copy(boot[43:], "BERTH      FAT12   ")
	boot[510], boot[511] = 0x55, 0xaa
	table := disk[2*sector:]
	for i, next := range []int{0xff8, 0xfff, 0xfff, 0xfff, 5, 0xfff} { // the directories EFI and BOOT, and the file
		at := i * 3 / 2
		if i%2 == 0 {
			table[at], table[at+1] = byte(next), byte(next>>8)
		} else {
			table[at], table[at+1] = table[at]|byte(next<<4), byte(next>>4)
		}
	}
	entry(disk[(clusters-1)*sector:], "EFI        ", 2, 0)
	for i, name := range []string{"BOOT       ", "BOOTX64 EFI"} {
		dir := disk[(clusters+i)*sector:]
		entry(dir, ".          ", 2+i, 0)
		entry(dir[32:], "..         ", 2*i, 0)
		entry(dir[64:], name, 3+i, i*fileSectors*sector)
	}
	copy(disk[(clusters+2)*sector:], bootLoader(text))
	return disk
}

// entry writes an entry of a directory. One without a size is a directory.
func entry(to []byte, name string, cluster, size int) {
	copy(to, name)
	to[11] = 0x10
	if size > 0 {
		to[11] = 0x20
	}
	binary.LittleEndian.PutUint16(to[26:], uint16(cluster))
	binary.LittleEndian.PutUint32(to[28:], uint32(size))
}

// bootLoader returns an application of UEFI (PE32+) with one section.
func bootLoader(text string) []byte {
	file := make([]byte, fileSectors*sector)
	copy(file, "MZ")
	file[0x3c] = 0x40
	copy(file[0x40:], "PE\x00\x00\x64\x86\x01\x00") // x86-64, one section
	put16, put32 := binary.LittleEndian.PutUint16, binary.LittleEndian.PutUint32
	put16(file[0x54:], 0xf0) // the size of the following header
	put16(file[0x56:], 0x22)
	for at, value := range map[int]uint32{0x58: 0x20b, 0x5c: sector, 0x68: 0x1000, 0x6c: 0x1000, 0x78: 0x1000,
		0x7c: sector, 0x90: 0x2000, 0x94: sector, 0x9c: 10,
		0xc4: 16} { // sizes and addresses; 10: an application; 16 directories
		put32(file[at:], value)
	}
	copy(file[0x148:], ".text")
	for i, value := range []uint32{sector, 0x1000, sector, sector} { // the size and the place in memory and in the file
		put32(file[0x150+4*i:], value)
	}
	put32(file[0x16c:], 0x60000020)                        // code that can be read and executed
	program := []byte{0xfc, 0x48, 0x8d, 0x35, 15, 0, 0, 0, // rsi = the text, which is 15 bytes after this
		0x66, 0xba, 0xf8, 0x03, // dx = 3f8
		0xac, 0x84, 0xc0, 0x74, 0x03, 0xee, 0xeb, 0xf8, // next: al = *rsi++; end if it is 0; print al; next
		0xf4, 0xeb, 0xfd} // end: halt
	copy(file[sector:], append(program, text...))
	return file
}

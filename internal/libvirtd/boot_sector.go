package libvirtd

// BootSector returns a disk whose first sector prints a text to the first serial port.
func BootSector(text string) []byte { return bootDisk(text, nil) }

// PowerOffSector returns a disk whose first sector prints a text to the first serial port, and then powers the machine
// off by ACPI, as an operating system that shuts down.
func PowerOffSector(text string) []byte {
	return bootDisk(text, []byte{0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef}) // S5 to PM1a_CNT of q35
}

// bootDisk returns a disk whose first sector prints a text and then runs instructions.
func bootDisk(text string, then []byte) []byte {
	disk := make([]byte, 1<<20)
	program := []byte{0xfc, 0x31, 0xc0, 0x8e, 0xd8, // cld; ds = 0
		0xbe, byte(0x16 + len(then)), 0x7c, // si = the text
		0xac, 0x84, 0xc0, 0x74, 0x06, // next: al = *si++; end if it is 0
		0xba, 0xf8, 0x03, 0xee, 0xeb, 0xf5} // print al to port 3f8; next
	program = append(append(program, then...), 0xf4, 0xeb, 0xfd) // end: halt
	copy(disk, append(program, text...))
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}

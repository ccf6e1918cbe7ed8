package libvirtd

// BootSector returns a disk whose first sector prints a text to the first serial port.
func BootSector(text string) []byte {
	disk := make([]byte, 1<<20)
	program := []byte{0xfc, 0x31, 0xc0, 0x8e, 0xd8, // cld; ds = 0
		0xbe, 0x16, 0x7c, // si = the text
		0xac, 0x84, 0xc0, 0x74, 0x06, // next: al = *si++; end if it is 0
		0xba, 0xf8, 0x03, 0xee, 0xeb, 0xf5, // print al to port 3f8; next
		0xf4, 0xeb, 0xfd} // end: halt
	copy(disk, append(program, text...))
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}

package libvirtd

// BootSector returns a disk whose first sector prints a text to the first serial port.
func BootSector(text string) []byte { return bootDisk(text, nil) }

// PowerOffSector returns a disk whose first sector prints a text to the first serial port, and then powers the machine
// off by ACPI, as an operating system that shuts down.
func PowerOffSector(text string) []byte {
	return bootDisk(text, []byte{0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef}) // S5 to PM1a_CNT of q35
}

// bootDisk returns a disk whose first sector prints a text and then runs instructions. It disables interrupts first: at
// the next tick of the timer SeaBIOS prints the rest of its own output, which would be in the middle of the text.
func bootDisk(text string, then []byte) []byte {
	disk := make([]byte, 1<<20)
	program := []byte{0xfa, 0xfc, 0x31, 0xc0, 0x8e, 0xd8, // cli; cld; ds = 0
		0xbe, byte(0x17 + len(then)), 0x7c, // si = the text
		0xac, 0x84, 0xc0, 0x74, 0x06, // next: al = *si++; end if it is 0
		0xba, 0xf8, 0x03, 0xee, 0xeb, 0xf5} // print al to port 3f8; next
	program = append(append(program, then...), 0xf4, 0xeb, 0xfd) // end: halt
	copy(disk, append(program, text...))
	return withBootRecord(disk)
}

// withBootRecord adds a partition of Linux and the signature of a boot record: an image without is refused.
func withBootRecord(disk []byte) []byte {
	disk[446+4], disk[446+8], disk[446+13] = 0x83, 1, 7 // sectors 1 to 1792
	disk[510], disk[511] = 0x55, 0xaa
	return disk
}

// CounterSector returns a disk whose first sector counts in a register, eighteen times a second, and prints each number
// as four hexadecimal digits and a line end to the first serial port. A guest that is started again begins with 0001.
func CounterSector() []byte {
	disk := make([]byte, 1<<20)
	copy(disk, []byte{0xfc, 0x31, 0xc0, 0x8e, 0xd8, 0x31, 0xdb, // ds = bx = 0
		0xfa, 0x43, 0xb9, 0x04, 0x00, 0xba, 0xf8, 0x03, 0x89, 0xd8, // next: cli; ax = ++bx; four digits to port 3f8
		0xc1, 0xc0, 0x04, 0x50, 0x24, 0x0f, 0x04, 0x30, // digit: al = the highest digit
		0x3c, 0x39, 0x76, 0x02, 0x04, 0x07, 0xee, 0x58, 0xe2, 0xee, // print it; digit
		0xb0, 0x0a, 0xee, 0xfb, 0xf4, 0xeb, 0xdd}) // print the line end; wait for the timer; next
	return withBootRecord(disk)
}

// ReleaseSector returns a disk whose first sector prints a text to the first serial port, and then releases each PCI
// device that QEMU asks for, eighteen times a second, through the registers of ACPI hot-plug of q35.
func ReleaseSector(text string) []byte {
	return bootDisk(text, []byte{0xfb,
		0x66, 0x31, 0xdb, // next: ebx, the bus, = 0
		0xba, 0xd0, 0x0c, 0x66, 0x89, 0xd8, 0x66, 0xef, // bus: select it
		0xba, 0xc4, 0x0c, 0x66, 0xed, // eax = the slots to release
		0xba, 0xc8, 0x0c, 0x66, 0xef, // release them
		0x43, 0x83, 0xfb, 0x20, 0x72, 0xe8, // 32 buses
		0xf4, 0xeb, 0xe2}) // wait for the timer; next
}

// EchoSector returns a disk whose first sector prints ready> and then each key that is typed, by the BIOS: to the
// screen and to the first serial port.
func EchoSector() []byte {
	disk := make([]byte, 1<<20)
	program := []byte{0x31, 0xc0, 0x8e, 0xd8, 0xfb} // ds = 0; sti
	for _, c := range []byte("ready>") {
		program = append(program, 0xb0, c, 0xb4, 0x0e, 0xbb, 0x07, 0x00, 0xcd, 0x10) // print c
	}
	program = append(program, 0x31, 0xc0, 0xcd, 0x16, // next: al = a key
		0xb4, 0x0e, 0xbb, 0x07, 0x00, 0xcd, 0x10, 0xeb, 0xf3) // print al; next
	copy(disk, program)
	return withBootRecord(disk)
}

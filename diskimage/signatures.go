package diskimage

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// partitioned is the claim of a disk with a boot record. It does not contradict Raw and ISO.
const partitioned = "a partitioned disk"

// signatures are the bytes at an offset by which formats are recognised.
var signatures = []struct {
	name   string
	offset int
	bytes  string
}{
	{string(QCOW2), 0, qcowMagic}, // also version 1, which inspectQCOW2 refuses
	{"qed", 0, "QED\x00"},
	{"cow", 0, "OOOM"}, // of User-mode Linux; it names a backing file
	{"cow", 0, "MOOO"},
	{"vmdk", 0, "KDMV"},
	{"vmdk", 0, "VMDK"},
	{"vmdk", 0, "COWD"},
	{"vhd", 0, "conectix"},
	{"vhd", 0, "cxsparse"},
	{"vhdx", 0, "vhdxfile"},
	{"vdi", 0x40, "\x7f\x10\xda\xbe"},
	{"luks", 0, "LUKS\xba\xbe"},
	{"luks", 0, "SKUL\xba\xbe"},
	{"parallels", 0, "WithoutFreeSpace"},
	{"parallels", 0, "WithouFreSpacExt"},
	{"cloop", 0, "#!/bin/sh\n#V2.0 Format\n"},
	{"bochs", 0, "Bochs Virtual HD Image"},
	{"dmg", 0, "koly"},
	{string(ISO), 0x8001, "CD001"},
	{string(ISO), 0x8001, "NSR02"},
	{string(ISO), 0x8001, "NSR03"},
	{string(ISO), 0x8001, "BEA01"}, // a disc with UDF alone
}

// claims returns the names of all formats that could claim an image with these first bytes, without repetition.
func claims(head []byte) (found []string) {
	for _, s := range signatures {
		if len(head) >= s.offset && bytes.HasPrefix(head[s.offset:], []byte(s.bytes)) {
			found = append(found, s.name)
		}
	}
	if name := claimOfText(head); name != "" {
		found = append(found, name)
	}
	if hasBootRecord(head) {
		found = append(found, partitioned)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// tailClaims returns the formats that end with a signature: a VHD image of fixed size has only a footer, whose last
// byte some programs omit, and a disk image of macOS has its only header there.
func tailClaims(tail []byte) []string {
	for name, signature := range map[string]string{"vhd": "conectix", "dmg": "koly"} {
		if bytes.HasPrefix(tail, []byte(signature)) || len(tail) > 1 && bytes.HasPrefix(tail[1:], []byte(signature)) {
			return []string{name}
		}
	}
	return nil
}

// The places of a master boot record.
const (
	sectorBytes      = 512
	atPartitions     = 446
	partitionBytes   = 16
	atBootSignature  = 510
	atNumberOfFATs   = 16 // of the boot sector of a FAT file system, which has the same signature
	atMedia          = 21
	fixedDisk        = 0xf8
	protective       = 0xee // the type of the partition that covers a GPT
	bootablePart     = 0x80
	firstSectorOfGPT = 1
)

// hasBootRecord reports whether an image begins with a master boot record. The boot sector of a FAT file system is
// none.
func hasBootRecord(head []byte) bool {
	return len(head) >= sectorBytes && head[atBootSignature] == 0x55 && head[atBootSignature+1] == 0xaa &&
		(head[atNumberOfFATs] != 2 || head[atMedia] != fixedDisk)
}

// checkPartitionTable refuses a master boot record that hides something else, by the rules of oslo.utils: flags that no
// program writes, a GPT beside other partitions, and no partition at all.
func checkPartitionTable(head []byte) error {
	used, gpt := 0, false
	for i := range 4 {
		entry := head[atPartitions+i*partitionBytes:][:partitionBytes]
		if entry[0] != 0 && entry[0] != bootablePart {
			return invalid("partition %d of the raw image has the boot flag %#x, which is not valid; write the partition "+
				"table again with sfdisk", i+1, entry[0])
		}
		if entry[4] == 0 {
			continue
		}
		used++
		if entry[4] != protective {
			continue
		}
		gpt = true
		first := binary.LittleEndian.Uint32(entry[8:])
		if !bytes.Equal(entry[1:4], []byte{0, 2, 0}) || first != firstSectorOfGPT || i > 0 {
			return invalid("the raw image has a GPT whose protective partition does not begin at sector 1; write the " +
				"partition table again with sgdisk")
		}
	}
	switch {
	case used == 0:
		return invalid("the raw image has a boot record without partitions; write a partition table with sfdisk")
	case gpt && used > 1:
		return invalid("the raw image has a GPT and other partitions in its boot record; write the partition table again " +
			"with sgdisk")
	}
	return nil
}

// The places of the first volume descriptor of ISO 9660, and how much of the volume programs leave out at its end.
const (
	atVolume        = 0x8000
	atVolumeBlocks  = atVolume + 80
	atBlockBytes    = atVolume + 128
	volumeBytes     = 2048
	primary         = 1
	volumePadding   = 150 * volumeBytes
	standardISOName = "CD001"
)

// checkVolumeSize refuses an ISO image that has lost its end.
func checkVolumeSize(head []byte, size int64) error {
	if len(head) < atVolume+volumeBytes {
		return invalid("the iso image is incomplete: it ends in its first descriptor; upload the image again")
	}
	if head[atVolume] != primary || string(head[atVolume+1:atVolume+1+len(standardISOName)]) != standardISOName {
		return nil // UDF alone
	}
	blocks := int64(binary.LittleEndian.Uint32(head[atVolumeBlocks:]))
	volume := blocks * int64(binary.LittleEndian.Uint16(head[atBlockBytes:]))
	if volume > size+volumePadding {
		return invalid("the iso image is incomplete: it has %d bytes, and its volume has %d; upload the image again", size,
			volume)
	}
	return nil
}

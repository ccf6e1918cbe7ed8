package diskimage

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// inspect inspects an image in memory.
func inspect(image []byte, declared Format) (Info, error) {
	return Inspect(bytes.NewReader(image), int64(len(image)), declared)
}

// mbr returns a disk with a boot record that has these types of partitions.
func mbr(types ...byte) []byte {
	disk := make([]byte, 4*sectorBytes)
	copy(disk, "\xeb\x63\x90")
	for i, kind := range types {
		entry := disk[atPartitions+i*partitionBytes:]
		entry[4] = kind
		entry[2], entry[8] = 2, 1 // it begins at sector 1
	}
	disk[atBootSignature], disk[atBootSignature+1] = 0x55, 0xaa
	return disk
}

// iso returns an image of a CD with a volume of some blocks.
func iso(blocks byte) []byte {
	image := at(nil, atVolume, "\x01CD001\x01")
	image = at(image, atVolumeBlocks, string([]byte{blocks}))
	image = at(image, atBlockBytes, "\x00\x08")
	return append(image, make([]byte, 4*volumeBytes)...)
}

// at returns head with bytes at an offset.
func at(head []byte, offset int, text string) []byte {
	if n := offset + len(text); n > len(head) {
		head = append(head, make([]byte, n-len(head))...)
	}
	copy(head[offset:], text)
	return head
}

func TestAccepted(t *testing.T) {
	for name, v := range map[string]struct {
		image    []byte
		declared Format
		size     int64 // of the disk; 0: of the file
	}{
		"qcow2": {qcow2(nil), QCOW2, 1 << 30},
		"compressed": {qcow2(func(h []byte) {
			h[atFeatures+7], h[atLength+3], h[atCompression] = featureCompression, version3Bytes+8, compressionZstd
		}), QCOW2, 1 << 30},
		"unknown extension":  {qcow2(func(h []byte) { at(h, 104, "\x01\x02\x03\x04\x00\x00\x00\x03abc") }), QCOW2, 1 << 30},
		"raw":                {[]byte("\xeb\x63\x90"), Raw, 0},
		"text":               {[]byte("# a script\nversion 1\n"), Raw, 0},
		"kernel":             {at([]byte("MZ"), atBootSignature, "\x55\xaa"), Kernel, 0},
		"iso":                {iso(20), ISO, 0},
		"udf":                {at(make([]byte, 20*volumeBytes), 0x8001, "NSR03"), ISO, 0},
		"partitions":         {mbr(0x83, 0x82), Raw, 0},
		"GPT":                {mbr(protective), Raw, 0},
		"FAT":                {at(mbr(), atNumberOfFATs, "\x02\x00\x02\x00\x08\xf8"), Raw, 0},
		"disk and ISO image": {append(mbr(0x17), iso(20)[4*sectorBytes:]...), Raw, 0},
		"bootable iso":       {append(mbr(0x17), iso(20)[4*sectorBytes:]...), ISO, 0},
	} {
		got, err := inspect(v.image, v.declared)
		if v.size == 0 {
			v.size = int64(len(v.image))
		}
		if want := (Info{v.declared, v.size}); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, v := range map[string]struct {
		image    []byte
		declared Format
		reason   string
	}{
		"empty raw":    {nil, Raw, "the image is empty"},
		"empty qcow2":  {nil, QCOW2, "the image is empty"},
		"backing file": {qcow2(func(h []byte) { h[atBackingFile+7] = 200 }), QCOW2, "backing file"},
		"format of a backing file": {qcow2(func(h []byte) { at(h, 104, "\xe2\x79\x2a\xca\x00\x00\x00\x03raw") }), QCOW2,
			"names another file"},
		"data file": {qcow2(func(h []byte) { h[atFeatures+7] = featureDataFile }), QCOW2, "external data file"},
		"name of a data file": {qcow2(func(h []byte) {
			at(h, 104, "\x01\x02\x03\x04\x00\x00\x00\x01a")
			at(h, 120, "DATA\x00\x00\x00\x0b/etc/shadow")
		}), QCOW2, "names another file"},
		"encrypted":       {qcow2(func(h []byte) { h[atEncryption+3] = 2 }), QCOW2, "encrypted"},
		"corrupt":         {qcow2(func(h []byte) { h[atFeatures+7] = featureCorrupt }), QCOW2, "corrupt"},
		"unknown feature": {qcow2(func(h []byte) { h[atFeatures] = 0x80 }), QCOW2, "not known"},
		"version":         {qcow2(func(h []byte) { h[atVersion+3] = 4 }), QCOW2, "version 4"},
		"version 1":       {qcow2(func(h []byte) { h[atVersion+3] = 1 }), QCOW2, "version 1"},
		"no disk":         {qcow2(func(h []byte) { copy(h[atSize:], make([]byte, 8)) }), QCOW2, "disk of 0 bytes"},
		"short header":    {qcow2(nil)[:80], QCOW2, "incomplete"},
		"short length":    {qcow2(func(h []byte) { h[atLength+3] = 0 }), QCOW2, "length of 0"},
		"endless extensions": {qcow2(func(h []byte) { at(h, 104, "\x01\x02\x03\x04\xff\xff\xff\xff") }), QCOW2,
			"longer than"},
		"not qcow2":         {[]byte("data"), QCOW2, "no known header"},
		"not iso":           {[]byte("data"), ISO, "no known header"},
		"qcow2 as a kernel": {qcow2(nil), Kernel, "can be read as qcow2"},
		"qcow2 and iso":     {at(qcow2(nil), 0x8001, "CD001"), QCOW2, "is also iso"},
		"qcow2 and vdi":     {at(qcow2(nil), 0x40, "\x7f\x10\xda\xbe"), QCOW2, "is also vdi"},
		"qcow2 and a disk":  {at(qcow2(nil), atBootSignature, "\x55\xaa"), QCOW2, "is also a partitioned disk"},
		"iso and vmdk":      {at(iso(20), 0, "KDMV"), ISO, "is also vmdk"},
		"iso as raw":        {iso(20), Raw, "can be read as iso"},
		"truncated iso":     {iso(255), ISO, "is incomplete"},
		"flag":              {at(mbr(0x83), atPartitions, "\x01"), Raw, "boot flag 0x1"},
		"no partitions":     {mbr(), Raw, "without partitions"},
		"GPT and more":      {mbr(protective, 0x83), Raw, "a GPT and other partitions"},
		"GPT second":        {mbr(0, protective), Raw, "does not begin at sector 1"},
		"unknown format":    {[]byte("data"), "vmdk", "not supported"},
	} {
		_, err := inspect(v.image, v.declared)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), v.reason) {
			t.Errorf("%s: %v; want %q", name, err, v.reason)
		}
	}
}

// What another format could claim is refused as raw, as a kernel and as a file system.
func TestClaimedImagesAreRefusedAsRaw(t *testing.T) {
	const lines = "version=1\nCID=1\ncreateType=\"monolithicFlat\"\nRW 1 FLAT \"/etc/shadow\" 0\n"
	footer := append(make([]byte, 4096), at(make([]byte, 512), 0, "conectix")...)
	for name, image := range map[string]string{
		"qcow2": string(qcow2(nil)), "qcow": "QFI\xfb\x00\x00\x00\x01", "qed": "QED\x00", "cow": "OOOM\x00\x00\x00\x02",
		"vmdk": "KDMV\x01", "vmdk of ESX": "COWD", "vhdx": "vhdxfile", "luks": "LUKS\xba\xbe\x00\x02",
		"vdi": string(at(nil, 0x40, "\x7f\x10\xda\xbe")), "parallels": "WithoutFreeSpace", "bochs": "Bochs Virtual HD Image",
		"parallels, extended": "WithouFreSpacExt", "cloop": "#!/bin/sh\n#V2.0 Format\n", "vhd": "conectix",
		"vhd, fixed": string(footer), "vhd, 511 bytes": string(footer[:len(footer)-1]),
		"dmg": string(append(make([]byte, 4096), at(make([]byte, 512), 0, "koly")...)),
		// Descriptors of VMDK.
		"descriptor":        "# Disk DescriptorFile\n" + lines,
		"only a name":       "# Disk DescriptorFile\n",
		"a comment":         "# anything\n" + lines,
		"comments":          "#\n#\n# \xff\xfe not ASCII\n" + lines,
		"a blank line":      "\n" + lines,
		"blanks":            " \t\r\n  \r\n\v\f\n" + lines,
		"blank and comment": "   \n# x\n\n" + lines,
		"version first":     lines,
		"version 2":         "version=2\n",
		"version, spaces":   "version = 1\n",
		"version, case":     "VERSION=3\r\n",
		"mark":              "\xef\xbb\xbf" + lines,
		"version later":     "CID=1\n" + lines,
		"no version":        "encoding=\"UTF-8\"\ncreateType=\"monolithicFlat\"\n",
		"only an extent":    "x=1\nRW 8192 FLAT \"/etc/shadow\" 0\n",
		"a parent":          "x=1\nparentFileNameHint=\"/etc/shadow\"\n",
		"filled up":         lines + strings.Repeat("\x00", 70000),
		"far":               strings.Repeat("# comment\n", 50_000) + lines,
		"far, no version":   strings.Repeat("# comment\n", 50_000) + "createType=\"vmfs\"",
		"parallels.xml":     "<?xml version='1.0'?>\n<Parallels_disk_image Version=\"1.0\">",
	} {
		for _, declared := range []Format{Raw, Kernel, Ramdisk, Machine} {
			if info, err := inspect([]byte(image), declared); !fault.Is(err, fault.Invalid) ||
				!strings.Contains(err.Error(), "can be read as") {
				t.Errorf("%s as %s: %v, %v", name, declared, info, err)
			}
		}
	}
}

func TestDetect(t *testing.T) {
	for want, head := range map[Format][]byte{Raw: []byte("\xeb\x63\x90"), QCOW2: qcow2(nil),
		ISO: iso(20)} {
		if got, err := Detect(head); err != nil || got != want {
			t.Errorf("%s: %s, %v", want, got, err)
		}
	}
	if got, err := Detect([]byte("KDMV")); !fault.Is(err, fault.Invalid) {
		t.Errorf("vmdk: %s, %v", got, err)
	}
}

// Images of qemu-img are accepted or refused as the headers above.
func TestImagesOfQEMU(t *testing.T) {
	testenv.Need(t, "qemu-img")
	dir := t.TempDir()
	make := func(name string, args ...string) []byte {
		t.Helper()
		file := filepath.Join(dir, name)
		command := exec.CommandContext(t.Context(), "qemu-img", append([]string{"create", "-q"},
			append(args, file, "64M")...)...)
		if text, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		head, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return head
	}
	for name, args := range map[string][]string{"plain": {"-f", "qcow2"}, "old": {"-f", "qcow2", "-o", "compat=0.10"},
		"zstd": {"-f", "qcow2", "-o", "compression_type=zstd"}, "l2": {"-f", "qcow2", "-o", "extended_l2=on"}} {
		got, err := inspect(make(name, args...), QCOW2)
		if err != nil || got.VirtualSize != 64<<20 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, args := range map[string][]string{
		"overlay":     {"-f", "qcow2", "-F", "qcow2", "-b", filepath.Join(dir, "plain")},
		"with-data":   {"-f", "qcow2", "-o", "data_file=" + filepath.Join(dir, "data")},
		"not-known-2": {"-f", "vmdk"}, "not-known-3": {"-f", "vdi"}, "not-known-4": {"-f", "vhdx"},
		"not-known-5": {"-f", "vpc"},
		"not-known-6": {"-f", "qed"},
	} {
		for _, declared := range []Format{QCOW2, Raw} {
			if got, err := inspect(make(name, args...), declared); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s as %s: %v, %v", name, declared, got, err)
			}
		}
	}
}

// An image with arbitrary bytes is refused or accepted; one that is accepted as qcow2 has no offset of a backing file.
func FuzzInspect(f *testing.F) {
	f.Add(qcow2(nil), "qcow2")
	f.Add(qcow2(func(h []byte) { at(h, 104, "DATA\x00\x00\x00\x0b/etc/shadow") }), "qcow2")
	f.Fuzz(func(t *testing.T, head []byte, declared string) {
		got, err := inspect(head, Format(declared))
		if err != nil {
			return
		}
		if got.VirtualSize < 0 {
			t.Errorf("a disk of %d bytes", got.VirtualSize)
		}
		if declared == "qcow2" && !bytes.Equal(head[atBackingFile:atBackingFile+8], make([]byte, 8)) {
			t.Error("accepted with a backing file")
		}
		if declared != "qcow2" && bytes.HasPrefix(head, []byte(qcowMagic)) {
			t.Errorf("a qcow2 header accepted as %s", declared)
		}
	})
}

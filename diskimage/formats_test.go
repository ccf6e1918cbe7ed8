package diskimage

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
)

// qcow2 returns the beginning of a qcow2 image of version 3 with a disk of one gibibyte.
func qcow2(change func(head []byte)) []byte {
	head := make([]byte, 4096)
	copy(head, qcowMagic)
	binary.BigEndian.PutUint32(head[atVersion:], 3)
	binary.BigEndian.PutUint64(head[atSize:], 1<<30)
	binary.BigEndian.PutUint32(head[atLength:], version3Bytes)
	if change != nil {
		change(head)
	}
	return head
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
		head     []byte
		declared Format
		size     int64 // of the disk
	}{
		"qcow2":              {qcow2(nil), QCOW2, 1 << 30},
		"compressed":         {qcow2(func(h []byte) { h[atFeatures+7] = featureCompression }), QCOW2, 1 << 30},
		"unknown extension":  {qcow2(func(h []byte) { at(h, 104, "\x01\x02\x03\x04\x00\x00\x00\x03abc") }), QCOW2, 1 << 30},
		"raw":                {[]byte("\xeb\x63\x90"), Raw, 7777},
		"empty":              {nil, Raw, 7777},
		"kernel":             {[]byte("MZ"), Kernel, 7777},
		"iso":                {at(nil, 0x8001, "CD001"), ISO, 7777},
		"disk and ISO image": {at([]byte("\xeb\x63\x90"), 0x8001, "CD001"), Raw, 7777},
	} {
		got, err := Inspect(v.head, 7777, v.declared)
		if want := (Info{v.declared, v.size}); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	for name, v := range map[string]struct {
		head     []byte
		declared Format
		reason   string
	}{
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
		"no disk":         {qcow2(func(h []byte) { copy(h[atSize:], make([]byte, 8)) }), QCOW2, "disk of 0 bytes"},
		"short header":    {qcow2(nil)[:80], QCOW2, "incomplete"},
		"short length":    {qcow2(func(h []byte) { h[atLength+3] = 0 }), QCOW2, "length of 0"},
		"endless extensions": {qcow2(func(h []byte) { at(h, 104, "\x01\x02\x03\x04\xff\xff\xff\xff") }), QCOW2,
			"longer than"},
		"not qcow2":         {[]byte("data"), QCOW2, "no known header"},
		"not iso":           {[]byte("data"), ISO, "no known header"},
		"qcow2 as raw":      {qcow2(nil), Raw, "begins like a qcow2"},
		"vmdk as raw":       {[]byte("# Disk DescriptorFile\nversion=1"), Raw, "begins like a vmdk"},
		"vdi as raw":        {at(nil, 0x40, "\x7f\x10\xda\xbe"), Raw, "begins like a vdi"},
		"qcow2 as a kernel": {qcow2(nil), Kernel, "begins like a qcow2"},
		"unknown format":    {nil, "vmdk", "not supported"},
	} {
		_, err := Inspect(v.head, int64(len(v.head)), v.declared)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), v.reason) {
			t.Errorf("%s: %v; want %q", name, err, v.reason)
		}
	}
}

func TestDetect(t *testing.T) {
	for want, head := range map[Format][]byte{Raw: []byte("\xeb\x63\x90"), QCOW2: qcow2(nil),
		ISO: at(nil, 0x8001, "CD001")} {
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
		return head[:min(len(head), HeadBytes)]
	}
	for name, args := range map[string][]string{"plain": {"-f", "qcow2"}, "old": {"-f", "qcow2", "-o", "compat=0.10"},
		"zstd": {"-f", "qcow2", "-o", "compression_type=zstd"}, "l2": {"-f", "qcow2", "-o", "extended_l2=on"}} {
		got, err := Inspect(make(name, args...), 1, QCOW2)
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
			if got, err := Inspect(make(name, args...), 1, declared); !fault.Is(err, fault.Invalid) {
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
		got, err := Inspect(head, int64(len(head)), Format(declared))
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

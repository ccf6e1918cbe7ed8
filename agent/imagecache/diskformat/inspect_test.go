package diskformat

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

// header returns a valid qcow2 header of version 3 with a disk of 1 MiB.
func header() []byte {
	head := make([]byte, 512)
	copy(head, "QFI\xfb")
	binary.BigEndian.PutUint32(head[atVersion:], 3)
	binary.BigEndian.PutUint32(head[atClusterBits:], 16)
	binary.BigEndian.PutUint64(head[atSize:], 1<<20)
	binary.BigEndian.PutUint32(head[atHeaderLength:], version3Length)
	return head
}

func TestInspect(t *testing.T) {
	if got, err := Inspect("qcow2", header(), 512); err != nil || got != (Info{QCOW2, 1 << 20}) {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := Inspect("raw", header(), 512); err != nil || got != (Info{Raw, 512}) { // the guest sees the header
		t.Errorf("%+v %v", got, err)
	}
	put := func(at int, value uint64, size int) []byte {
		head := header()
		whole := binary.BigEndian.AppendUint64(nil, value)
		copy(head[at:], whole[8-size:])
		return head
	}
	for says, c := range map[string]struct {
		format string
		head   []byte
	}{
		"backing file":             {"qcow2", put(atBacking, 600, 8)},
		"data in another file":     {"qcow2", put(atIncompatible, dataFile, 8)},
		"(0x2)":                    {"qcow2", put(atIncompatible, 2, 8)},
		"names a data file":        {"qcow2", put(version3Length, dataFileName<<32|4, 8)},
		"encrypted":                {"qcow2", put(atCrypt, 2, 4)},
		"version 4":                {"qcow2", put(atVersion, 4, 4)},
		"disk of 0 bytes":          {"qcow2", put(atSize, 0, 8)},
		"disk of 9223372036854":    {"qcow2", put(atSize, 1<<63, 8)},
		"2^63":                     {"qcow2", put(atClusterBits, 63, 4)},
		"no end":                   {"qcow2", put(atHeaderLength, 511, 4)},
		"is declared as qcow2":     {"qcow2", []byte("a kernel")},
		`"vmdk" is not supported`:  {"vmdk", []byte("KDMV")},
		`"qed" is not supported`:   {"iso", []byte("QED\x00")},
		`"ami" is not supported`:   {"ami", header()},
		"a disk has 1 byte to 64 ": {"raw", nil},
	} {
		_, err := Inspect(c.format, c.head, int64(len(c.head)))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
}

// TestImagesOfQEMU inspects images that qemu-img has made.
func TestImagesOfQEMU(t *testing.T) {
	testenv.Need(t, "qemu-img")
	dir := t.TempDir()
	t.Chdir(dir)
	for _, args := range []string{"-f qcow2 plain 3M", "-f qcow2 -o compat=0.10 old 3M",
		"-f qcow2 -o extended_l2=on,compression_type=zstd features 3M", "-f qcow2 -F qcow2 -b plain backed",
		"-f qcow2 -o compat=0.10 -F qcow2 -b plain oldbacked", "-f qcow2 -o data_file=/dev/shm/data data 3M",
		"-f qcow2 --object secret,id=s,data=x -o encrypt.format=luks,encrypt.key-secret=s,encrypt.iter-time=10 " +
			"encrypted 3M"} {
		if out, err := exec.Command("qemu-img", append([]string{"create", "-q"}, strings.Fields(args)...)...).
			CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
	}
	os.Remove("/dev/shm/data")
	for name, says := range map[string]string{"plain": "", "old": "", "features": "", "backed": "backing file",
		"oldbacked": "backing file", "data": "data in another file", "encrypted": "encrypted"} {
		head, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Inspect("qcow2", head[:min(len(head), HeaderSize)], int64(len(head)))
		if says == "" && (err != nil || got.Size != 3<<20) || says != "" && !strings.Contains(fault.TextOf(err), says) {
			t.Errorf("%s: %+v %v", name, got, err)
		}
	}
}

// FuzzInspect checks that no accepted qcow2 image refers to another file.
func FuzzInspect(f *testing.F) {
	f.Add(header())
	f.Add([]byte("QFI\xfb\x00\x00\x00\x02"))
	f.Add(append(header()[:version3Length], "DATA\x00\x00\x00\x04/etc\x00\x00\x00\x00"...))
	f.Fuzz(func(t *testing.T, head []byte) {
		got, err := Inspect("qcow2", head, int64(len(head)))
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		version := binary.BigEndian.Uint32(head[atVersion:])
		extensions := head[version2Length:]
		if version == 3 {
			extensions = head[binary.BigEndian.Uint32(head[atHeaderLength:]):]
		}
		if got.Size <= 0 || binary.BigEndian.Uint64(head[atBacking:]) != 0 || bytes.HasPrefix(extensions, []byte("DATA")) ||
			version == 3 && binary.BigEndian.Uint64(head[atIncompatible:])&dataFile != 0 {
			t.Fatalf("accepted: %+v", got)
		}
	})
}

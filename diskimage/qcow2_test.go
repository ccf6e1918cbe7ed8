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

// The clusters of the image of qcow2.
const (
	cluster        = 1 << 16
	atTestRefTable = 1 * cluster
	atTestBlock    = 2 * cluster
	atTestL1       = 3 * cluster
	atTestL2       = 4 * cluster
	atTestData     = 5 * cluster
	testImageBytes = 6 * cluster
)

// put writes a number at a place of an image.
func put(image []byte, at int, n uint64) { binary.BigEndian.PutUint64(image[at:], n) }

// qcow2 returns a qcow2 image of version 3 with a disk of one gibibyte, of which one cluster is written.
func qcow2(change func(image []byte)) []byte {
	image := make([]byte, testImageBytes)
	copy(image, qcowMagic)
	binary.BigEndian.PutUint32(image[atVersion:], 3)
	binary.BigEndian.PutUint32(image[atClusterBits:], 16)
	put(image, atSize, 1<<30)
	binary.BigEndian.PutUint32(image[atL1Entries:], 2)
	put(image, atL1Table, atTestL1)
	put(image, atRefcounts, atTestRefTable)
	binary.BigEndian.PutUint32(image[atRefClusters:], 1)
	binary.BigEndian.PutUint32(image[atRefcountOrder:], 4)
	binary.BigEndian.PutUint32(image[atLength:], version3Bytes)
	put(image, atTestRefTable, atTestBlock)
	put(image, atTestL1, 1<<63|atTestL2)
	put(image, atTestL2, 1<<63|atTestData)
	if change != nil {
		change(image)
	}
	return image
}

// A qcow2 image whose structure is not valid is refused with what is wrong.
func TestDamagedQCOW2(t *testing.T) {
	full := func(change func(image []byte)) []byte { return qcow2(change) }
	for name, v := range map[string]struct {
		image  []byte
		reason string
	}{
		"cluster_bits 0":      {full(func(i []byte) { i[atClusterBits+3] = 0 }), "cluster_bits is 0"},
		"cluster_bits 63":     {full(func(i []byte) { i[atClusterBits+3] = 63 }), "cluster_bits is 63"},
		"cluster_bits large":  {full(func(i []byte) { i[atClusterBits] = 0x80 }), "cluster_bits is 2147483664"},
		"refcount_order":      {full(func(i []byte) { i[atRefcountOrder+3] = 7 }), "refcount_order is 7"},
		"no counts":           {full(func(i []byte) { i[atRefClusters+3] = 0 }), "has 0 clusters"},
		"counts misaligned":   {full(func(i []byte) { put(i, atRefcounts, atTestRefTable+8) }), "table of reference counts"},
		"counts outside":      {full(func(i []byte) { put(i, atRefcounts, 1<<40) }), "table of reference counts"},
		"too many counts":     {full(func(i []byte) { put(i, atRefClusters-4, 0xffffffff) }), "has 4294967295 clusters"},
		"block outside":       {full(func(i []byte) { put(i, atTestRefTable, 1<<40) }), "block of reference counts"},
		"block misaligned":    {full(func(i []byte) { put(i, atTestRefTable, atTestBlock+8) }), "block of reference counts"},
		"L1 too small":        {full(func(i []byte) { i[atL1Entries+3] = 1 }), "L1 table has 1 entries"},
		"L1 too large":        {full(func(i []byte) { i[atL1Entries] = 0xff }), "L1 table has 4278190082 entries"},
		"L1 outside":          {full(func(i []byte) { put(i, atL1Table, 1<<62) }), "its L1 table is at"},
		"L1 in the header":    {full(func(i []byte) { put(i, atL1Table, 0) }), "its L1 table is at"},
		"L1 misaligned":       {full(func(i []byte) { put(i, atL1Table, atTestL1+8) }), "its L1 table is at"},
		"L1 entry":            {full(func(i []byte) { put(i, atTestL1, 0xffffffffffffffff) }), "an L2 table is at"},
		"L2 outside":          {full(func(i []byte) { put(i, atTestL1, 1<<63|1<<40) }), "an L2 table is at"},
		"L2 twice":            {full(func(i []byte) { put(i, atTestL1+8, atTestL2) }), "two entries"},
		"data outside":        {full(func(i []byte) { put(i, atTestL2, 1<<63|testImageBytes) }), "a cluster of data is at"},
		"data misaligned":     {full(func(i []byte) { put(i, atTestL2, atTestData+512) }), "a cluster of data is at"},
		"data reserved":       {full(func(i []byte) { put(i, atTestL2, 1<<60|atTestData) }), "which is not valid"},
		"compressed outside":  {full(func(i []byte) { put(i, atTestL2, 1<<62|1<<40) }), "a compressed cluster is at"},
		"compressed beyond":   {full(func(i []byte) { put(i, atTestL2, 1<<62|200<<54|atTestData) }), "a compressed cluster"},
		"snapshots":           {full(func(i []byte) { i[atSnapshots+3], i[atSnapshotTable] = 1, 7 }), "table of 1 snapshots"},
		"compression unknown": {full(func(i []byte) { i[atFeatures+7] = featureCompression }), "type of compression"},
		"truncated data":      {full(nil)[:atTestData], "a cluster of data is at"},
		"truncated L2":        {full(nil)[:atTestL2+100], "an L2 table is at"},
		"truncated L1":        {full(nil)[:atTestL1+8], "its L1 table is at"},
		"only a header":       {full(nil)[:4096], "table of reference counts"},
	} {
		_, err := inspect(v.image, QCOW2)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), v.reason) {
			t.Errorf("%s: %v; want %q", name, err, v.reason)
		}
	}
}

// Each image that qemu-img writes is accepted, and refused when its end is missing.
func TestStructureOfImagesOfQEMU(t *testing.T) {
	testenv.Need(t, "qemu-img")
	dir := t.TempDir()
	raw := filepath.Join(dir, "raw")
	content := bytes.Repeat([]byte("some content that can be compressed\n"), 60_000)
	if err := os.WriteFile(raw, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"plain": nil, "compressed": {"-c"}, "512": {"-o", "cluster_size=512"},
		"2M": {"-o", "cluster_size=2M"}, "v2": {"-o", "compat=0.10"}, "l2": {"-o", "extended_l2=on"},
		"zstd": {"-c", "-o", "compression_type=zstd"}, "64-bit counts": {"-o", "refcount_bits=64"},
		"preallocated": {"-o", "preallocation=metadata"}} {
		file := filepath.Join(dir, "image")
		command := append(append([]string{"convert", "-O", "qcow2"}, args...), raw, file)
		if text, err := exec.CommandContext(t.Context(), "qemu-img", command...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, text)
		}
		image, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := inspect(image, QCOW2); err != nil || info.VirtualSize < int64(len(content)) {
			t.Errorf("%s: %+v, %v", name, info, err)
		}
		for _, part := range []int{2, 3} {
			if _, err := inspect(image[:len(image)*(part-1)/part], QCOW2); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s without its last of %d parts: %v", name, part, err)
			}
		}
	}
}

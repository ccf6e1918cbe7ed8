package diskimage

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Data written in pieces of any size is the data that is read, and its zeros take no space.
func TestSparseWriter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 16<<20)
	for range 20 {
		at := random.IntN(len(data) - 10_000)
		for i := range random.IntN(10_000) {
			data[at+i] = byte(random.Int())
		}
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := &SparseWriter{To: file}
	for rest := data; len(rest) > 0; {
		n := min(1+random.IntN(100_000), len(rest))
		if written, err := w.Write(rest[:n]); err != nil || written != n {
			t.Fatal(written, err)
		}
		rest = rest[n:]
	}
	if err := file.Truncate(w.Offset); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file.Name())
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	status, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if used := status.Sys().(*syscall.Stat_t).Blocks * 512; used > 1<<20 {
		t.Errorf("%d bytes are used", used)
	}
}

// What was written before an error is counted.
func TestSparseWriterFails(t *testing.T) {
	w := &SparseWriter{To: full{}, Offset: 10}
	n, err := w.Write(append(make([]byte, 2*block-10), "data"...))
	if n != 2*block-10 || err == nil || w.Offset != 2*block {
		t.Errorf("%d, %v, at %d", n, err, w.Offset)
	}
}

// full is a file that takes nothing.
type full struct{}

func (full) WriteAt([]byte, int64) (int, error) { return 0, syscall.ENOSPC }

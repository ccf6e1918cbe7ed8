package diskimage

import (
	"bytes"
	"io"
)

// block is the unit of holes of usual file systems.
const block = 4096

var zeros [block]byte

// SparseWriter writes data to a file at increasing offsets, and leaves out blocks of zeros, so that they take no space.
// The file must have no data behind the first offset. When all is written, the caller sets the size of the file to
// Offset: the file does not end with the last data if they are zeros.
type SparseWriter struct {
	To     io.WriterAt
	Offset int64 // of the next byte
}

// Write implements io.Writer.
func (w *SparseWriter) Write(data []byte) (n int, err error) {
	for n < len(data) {
		part := w.next(data[n:])
		if !isZero(part) {
			for len(part) < len(data)-n { // write neighbours at once
				more := w.part(data[n+len(part):], w.Offset+int64(len(part)))
				if isZero(more) {
					break
				}
				part = data[n : n+len(part)+len(more)]
			}
			written, err := w.To.WriteAt(part, w.Offset)
			if err != nil {
				w.Offset += int64(written)
				return n + written, err
			}
		}
		n += len(part)
		w.Offset += int64(len(part))
	}
	return n, nil
}

func (w *SparseWriter) next(data []byte) []byte { return w.part(data, w.Offset) }

// part returns the data up to the end of the block that the offset is in.
func (w *SparseWriter) part(data []byte, offset int64) []byte {
	return data[:min(int64(len(data)), block-offset%block)]
}

func isZero(data []byte) bool { return bytes.Equal(data, zeros[:len(data)]) }

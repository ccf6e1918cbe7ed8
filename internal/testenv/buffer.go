package testenv

import (
	"bytes"
	"sync"
)

// Buffer is a text that is read while it is written, such as the output of a process or the log of a server.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the text. It returns no error.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what has been written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

package sqldb

import (
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

// TestNestedTransactionIsRejected checks that a write inside a write fails at once, because it would wait for itself,
// and that the outer one continues. In memory, where all transactions share one connection, reads fail too.
func TestNestedTransactionIsRejected(t *testing.T) {
	ctx := t.Context()
	read := func(db *DB) error { return db.Read(ctx, func(*Tx) error { return nil }) }
	write := func(db *DB) error { return db.Write(ctx, insertRow("inner")) }
	refused := func(db *DB, inner func(*DB) error) func(*Tx) error {
		return func(tx *Tx) error {
			if err := inner(db); !fault.Is(err, fault.Internal) || !strings.Contains(fault.TextOf(err),
				"would wait for itself") {
				t.Errorf("%v", err)
			}
			return nil
		}
	}
	file, memory := open(t, fileURL(t)), open(t, "sqlite://")
	must(t, file.Write(ctx, refused(file, write)))
	must(t, file.Write(ctx, func(*Tx) error { return read(file) }))
	must(t, file.Read(ctx, func(*Tx) error { return write(file) }))
	wantNames(t, file, "inner")
	must(t, memory.Write(ctx, refused(memory, write)))
	must(t, memory.Write(ctx, refused(memory, read)))
	must(t, memory.Read(ctx, refused(memory, read)))
	must(t, memory.Read(ctx, refused(memory, write)))
	must(t, memory.ReadOne(ctx, refused(memory, read)))
	must(t, memory.ReadOne(ctx, refused(memory, write)))
	must(t, memory.Write(ctx, insertRow("outer")))
	wantNames(t, memory, "outer")
}

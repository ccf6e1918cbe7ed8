package store

import "sync/atomic"

// migrationNumbers returns the numbers of new migrations. Concurrent transactions do not see the rows of each other,
// and only this process adds rows, so the last number is kept in memory. It is safe for concurrent use.
type migrationNumbers struct{ last atomic.Int64 }

// next returns a number above stored, the largest one of the rows that a transaction sees, which it returns once.
func (n *migrationNumbers) next(stored int64) int64 {
	for {
		last := n.last.Load()
		if next := max(last, stored) + 1; n.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

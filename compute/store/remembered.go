package store

import (
	"sync"
	"time"

	"github.com/openberth/berth/compute/store/lease"
)

// maxRemembered bounds the memory of one kind of values.
const maxRemembered = 10_000

// rememberFor is how long values are remembered at most. Nothing but this process changes the rows; but a database
// server that takes over for another one may have lost the last changes, which nothing else would notice.
const rememberFor = time.Minute

// remembered keeps in memory what was read of rows that change rarely, until this process changes them. It is used only
// while the lease keeps other processes from changing them. Values that it returns are shared: no caller changes them
// in place. It is safe for concurrent use.
type remembered[K comparable, V any] struct {
	mu      sync.Mutex
	values  map[K]V
	since   time.Time // the first of values
	forgets uint64    // how often all values were forgotten
}

// get returns the value of a key: the remembered one, or what read returns. An error is not remembered.
func (r *remembered[K, V]) get(db *lease.Database, key K, read func() (V, error)) (V, error) {
	alone := db.IsAlone()
	r.mu.Lock()
	if time.Since(r.since) > rememberFor {
		r.values = nil
	}
	value, known := r.values[key]
	began := r.forgets
	r.mu.Unlock()
	if known && alone {
		return value, nil
	}
	value, err := read()
	if err != nil || !alone {
		return value, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forgets != began { // the value may be older than the change
		return value, nil
	}
	if r.values == nil || len(r.values) >= maxRemembered {
		r.values, r.since = map[K]V{}, time.Now()
	}
	r.values[key] = value
	return value, nil
}

// forget has all values read again. It is called after each write of such rows, also after one that failed.
func (r *remembered[K, V]) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values = nil
	r.forgets++
}

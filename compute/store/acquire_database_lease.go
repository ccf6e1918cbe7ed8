package store

import "context"

// Hold acquires the lease for this process. Afterwards all calls of the store fail once another process owns the lease.
// A lease that was released or whose owner is known to have ended is acquired at once; otherwise Hold waits for a
// renewal up to the TTL (twice the TTL for an owner known to run). It returns fault.Conflict, which names the owner, if
// the owner renews the lease. Keep must run as long as the store is used.
func (s *Store) Hold(ctx context.Context, me LeaseOwner, terms LeaseOptions) (*Lease, error) {
	l := &Lease{db: s.db.db, self: me, options: terms.withDefaults(), lost: make(chan struct{})}
	l.client = newClientLease(l.options.TTL - l.options.TTL/3)
	if err := l.waitAndAcquire(ctx); err != nil {
		return nil, wrap(err)
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	s.db.lease = l
	return l, nil
}

package store

import (
	"context"
	"errors"

	"github.com/openberth/berth/sqldb"
)

// Subscribe returns a channel that receives a value after changes of a host's assignments by this process. Several
// changes may yield one value. stop ends the subscription.
func (s *Store) Subscribe(host string) (changed <-chan struct{}, stop func()) {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers[host] == nil {
		s.assignments.keep(host)
		s.subscribers[host] = map[chan struct{}]bool{}
	}
	s.subscribers[host][ch] = true
	return ch, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.subscribers[host], ch)
		if len(s.subscribers[host]) == 0 {
			delete(s.subscribers, host)
			s.assignments.forget(host)
		}
	}
}

// notify sends a value to the subscribers of the hosts.
func (s *Store) notify(hosts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, host := range hosts {
		for ch := range s.subscribers[host] {
			select {
			case ch <- struct{}{}:
			default: // a value is pending
			}
		}
	}
}

// ensureHost creates the row of a host if it does not exist.
func ensureHost(ctx context.Context, tx *sqldb.Tx, host string) error {
	_, err := tx.InsertIgnore(ctx, `INSERT INTO compute_hosts (name, provider, revision, seen, reports, report)
		VALUES (?, '', 0, 0, 0, '')`, host)
	return err
}

// errNoHost reports that a host has no row yet.
var errNoHost = errors.New("the host has no row")

// raiseRevisions increments the revision of each host's assignments. Empty names are ignored.
func raiseRevisions(ctx context.Context, tx *sqldb.Tx, hosts ...string) error {
	for _, host := range hosts {
		if host == "" {
			continue
		}
		const raise = `UPDATE compute_hosts SET revision = revision + 1 WHERE name = ?`
		done, err := tx.Exec(ctx, raise, host)
		if err = sqldb.RequireRow(done, err, errNoHost); err == nil {
			continue
		}
		if !errors.Is(err, errNoHost) {
			return err
		}
		if err := ensureHost(ctx, tx, host); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, raise, host); err != nil {
			return err
		}
	}
	return nil
}

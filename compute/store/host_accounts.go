package store

import (
	"context"
	"database/sql"
	"maps"
	"sync"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// HostAccount is the binding of a host to the account of its agent.
type HostAccount struct {
	Host     string
	Account  string // the id of the user
	Strategy string // the auth_strategy that the id belongs to
	Bound    time.Time
}

// hostAccounts caches the bindings, because each call of an agent needs one. Only this process changes them, because it
// has the lease.
type hostAccounts struct {
	writes sync.RWMutex // read-locked while the database and byHost are changed, locked while all are read
	hosts  hostLocks    // orders the changes of one host; those of several hosts share transactions

	mu     sync.RWMutex
	byHost map[string]HostAccount // nil: not read yet
	stale  map[string]bool        // hosts whose last change failed, so that its outcome may be unknown
}

// HostAccounts returns the bindings by host.
func (s *Store) HostAccounts(ctx context.Context) (map[string]HostAccount, error) {
	if err := s.loadHostAccounts(ctx); err != nil {
		return nil, wrap(err)
	}
	s.accounts.mu.RLock()
	defer s.accounts.mu.RUnlock()
	return maps.Clone(s.accounts.byHost), nil
}

// HostAccount returns the binding of a host; its Account is empty if the host is not bound.
func (s *Store) HostAccount(ctx context.Context, host string) (HostAccount, error) {
	for {
		if b, loaded := s.accounts.get(host); loaded {
			return b, nil
		}
		if err := s.loadHostAccounts(ctx); err != nil {
			return HostAccount{}, wrap(err)
		}
	}
}

// BindHost binds a host to an account, also a host whose agent has never reported. It replaces another binding.
func (s *Store) BindHost(ctx context.Context, b HostAccount) error {
	return wrap(s.changeHostAccount(ctx, b.Host,
		func(tx *sqldb.Tx, _ HostAccount) (HostAccount, error) { return b, writeHostAccount(ctx, tx, b) }))
}

// BindFreeHost binds a host to an account, unless the host is bound to an account of the same strategy. It returns the
// binding that applies afterwards.
func (s *Store) BindFreeHost(ctx context.Context, b HostAccount) (bound HostAccount, err error) {
	err = s.changeHostAccount(ctx, b.Host, func(tx *sqldb.Tx, present HostAccount) (HostAccount, error) {
		if bound = present; present.Account != "" && present.Strategy == b.Strategy {
			return bound, nil
		}
		bound = b
		return bound, writeHostAccount(ctx, tx, b)
	})
	return bound, wrap(err)
}

// UnbindHost removes the binding of a host. It returns fault.NotFound if the host is not bound.
func (s *Store) UnbindHost(ctx context.Context, host string) error {
	return wrap(s.changeHostAccount(ctx, host,
		func(tx *sqldb.Tx, _ HostAccount) (none HostAccount, err error) {
			done, err := tx.Exec(ctx, `DELETE FROM compute_host_accounts WHERE host = ?`, host)
			return none, sqldb.RequireRow(done, err, fault.New(fault.NotFound, "host %s is not bound to an account", host))
		}))
}

// changeHostAccount executes a transaction on the binding of a host. change gets the present binding and returns the
// one after the transaction; both have no account if the host is not bound.
func (s *Store) changeHostAccount(ctx context.Context, host string,
	change func(tx *sqldb.Tx, present HostAccount) (HostAccount, error)) error {
	defer s.accounts.hosts.lock(host)()
	present, loaded := HostAccount{}, false
	for !loaded {
		if err := s.loadHostAccounts(ctx); err != nil {
			return err
		}
		s.accounts.writes.RLock()
		if present, loaded = s.accounts.get(host); !loaded { // another change has failed meanwhile
			s.accounts.writes.RUnlock()
		}
	}
	defer s.accounts.writes.RUnlock()
	var next HostAccount
	err := s.db.Write(ctx, func(tx *sqldb.Tx) (err error) {
		next, err = change(tx, present)
		return err
	})
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	switch {
	case err != nil:
		s.accounts.stale[host] = true
	case next.Account == "":
		delete(s.accounts.byHost, host)
	default:
		s.accounts.byHost[host] = next
	}
	return err
}

func writeHostAccount(ctx context.Context, tx *sqldb.Tx, b HostAccount) error {
	return tx.Upsert(ctx, "compute_host_accounts", []string{"host"}, []string{"account", "strategy", "bound"},
		b.Host, b.Account, b.Strategy, micros(b.Bound))
}

// loadHostAccounts reads the bindings unless the cache has all of them.
func (s *Store) loadHostAccounts(ctx context.Context) error {
	if s.accounts.complete() {
		return nil
	}
	s.accounts.writes.Lock()
	defer s.accounts.writes.Unlock()
	if s.accounts.complete() { // thousands of agents may wait here for one reader
		return nil
	}
	known := map[string]HostAccount{}
	if err := s.db.Read(ctx, func(tx *sqldb.Tx) error { return readHostAccounts(ctx, tx, known) }); err != nil {
		return err
	}
	s.accounts.mu.Lock()
	defer s.accounts.mu.Unlock()
	s.accounts.byHost, s.accounts.stale = known, map[string]bool{}
	return nil
}

// complete reports whether the cache has the bindings of all hosts.
func (a *hostAccounts) complete() bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.byHost != nil && len(a.stale) == 0
}

// readHostAccounts reads all bindings into a map.
func readHostAccounts(ctx context.Context, tx *sqldb.Tx, known map[string]HostAccount) error {
	clear(known)
	return sqldb.QueryEach(ctx, tx, `SELECT host, account, strategy, bound FROM compute_host_accounts`, nil,
		func(rows *sql.Rows) error {
			var b HostAccount
			var bound int64
			err := rows.Scan(&b.Host, &b.Account, &b.Strategy, &bound)
			b.Bound = time.UnixMicro(bound).UTC()
			known[b.Host] = b
			return err
		})
}

// get returns the binding of a host from the cache. loaded is false if the binding must be read.
func (a *hostAccounts) get(host string) (b HostAccount, loaded bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.byHost[host], a.byHost != nil && !a.stale[host]
}

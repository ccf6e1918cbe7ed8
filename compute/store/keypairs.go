package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// KeyPair is the public half of a key pair of a user. Private keys are not stored.
type KeyPair struct {
	User, Name  string
	Number      int64  // from 1
	Type        string // ssh
	PublicKey   string
	Fingerprint string
	Created     time.Time
}

const keyPairColumns = `user_id, name, number, type, public_key, fingerprint, created`

// CreateKeyPair stores a new key pair and returns it with its number. It returns fault.Conflict if the user has a key
// pair of this name, and fault.Forbidden if the user has most key pairs already; below 0 there is no limit.
func (s *Store) CreateKeyPair(ctx context.Context, k KeyPair, most int) (KeyPair, error) {
	owner := "key pairs of " + k.User
	unlock, err := s.quotaLocks.lock(ctx, owner)
	if err != nil {
		return k, err
	}
	defer unlock()
	err = s.db.WriteUpTo(ctx, lockedAttempts, func(tx *sqldb.Tx) error {
		if err := lockOwner(ctx, tx, owner); err != nil {
			return err
		}
		var count int
		row := tx.QueryRow(ctx, `SELECT COUNT(*) FROM compute_keypairs WHERE user_id = ?`, k.User)
		if err := row.Scan(&count); err != nil {
			return err
		}
		if most >= 0 && count >= most {
			return fault.New(fault.Forbidden, "Quota exceeded, too many key pairs. (user %s has %d)", k.User, count)
		}
		row = tx.QueryRow(ctx, `SELECT COALESCE(MAX(number), 0) + 1 FROM compute_keypairs`)
		if err := row.Scan(&k.Number); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO compute_keypairs (`+keyPairColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)`,
			k.User, k.Name, k.Number, k.Type, k.PublicKey, k.Fingerprint, micros(k.Created))
		if sqldb.IsDuplicate(err) {
			return fault.New(fault.Conflict, "Key pair '%s' already exists.", k.Name)
		}
		return err
	})
	return k, wrap(err)
}

// KeyPair returns a key pair of a user, or fault.NotFound.
func (s *Store) KeyPair(ctx context.Context, user, name string) (KeyPair, error) {
	var k KeyPair
	err := s.db.ReadOne(ctx, func(tx *sqldb.Tx) error {
		var err error
		k, err = scanKeyPair(tx.QueryRow(ctx,
			`SELECT `+keyPairColumns+` FROM compute_keypairs WHERE user_id = ? AND name = ?`, user, name))
		if errors.Is(err, sql.ErrNoRows) {
			return unknownKeyPair(user, name)
		}
		return err
	})
	return k, wrap(err)
}

// KeyPairs lists at most limit key pairs of a user whose names are greater than after, sorted by name.
func (s *Store) KeyPairs(ctx context.Context, user, after string, limit int) ([]KeyPair, error) {
	var list []KeyPair
	err := s.db.ReadOne(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = sqldb.QueryList(ctx, tx, `SELECT `+keyPairColumns+` FROM compute_keypairs WHERE user_id = ? AND name > ?
			ORDER BY name LIMIT ?`, []any{user, after, page(limit)},
			func(rows *sql.Rows) (KeyPair, error) { return scanKeyPair(rows) })
		return err
	})
	return list, wrap(err)
}

// DeleteKeyPair removes a key pair; fault.NotFound. Servers keep its name.
func (s *Store) DeleteKeyPair(ctx context.Context, user, name string) error {
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		done, err := tx.Exec(ctx, `DELETE FROM compute_keypairs WHERE user_id = ? AND name = ?`, user, name)
		return sqldb.RequireRow(done, err, unknownKeyPair(user, name))
	}))
}

func unknownKeyPair(user, name string) error {
	return fault.New(fault.NotFound, "Keypair %s not found for user %s", name, user)
}

func scanKeyPair(row scanner) (k KeyPair, err error) {
	var created int64
	err = row.Scan(&k.User, &k.Name, &k.Number, &k.Type, &k.PublicKey, &k.Fingerprint, &created)
	k.Created = time.UnixMicro(created).UTC()
	return k, err
}

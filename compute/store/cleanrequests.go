package store

import (
	"context"
	"slices"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/sqldb"
)

// Wish is a device for one-time use that an operator wants back from its host's agent. It stands until the device is clean.
type CleanRequest struct {
	Host    string
	Address pci.Address
	Asked   time.Time // to the microsecond; another time is another wish
	Refused string    // why the agent did not clean it; empty: it has not answered
}

// Want keeps a wish, in the place of an earlier one for the same device, and wakes those who follow the host.
func (s *Store) RequestClean(ctx context.Context, w CleanRequest) error {
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Upsert(ctx, "compute_wishes", []string{"host", "address"}, []string{"asked", "refused"}, w.Host, w.Address.String(), micros(w.Asked), ""); err != nil {
			return err
		}
		return raiseRevisions(ctx, tx, w.Host)
	})
	if err == nil {
		s.notify(w.Host)
	}
	return wrap("Want", err)
}

// Wishes lists the wishes of all hosts, the refused ones too, by host and address.
func (s *Store) CleanRequests(ctx context.Context) ([]CleanRequest, error) {
	var list []CleanRequest
	err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = readCleanRequests(ctx, tx, ` ORDER BY host, address`)
		return err
	})
	return list, wrap("Wishes", err)
}

// Settle takes in what a host's agent says of wishes: those for devices that need no cleaning any more are fulfilled, and answers with Refused are kept
// for who asks. An answer to an earlier wish for the device counts for nothing.
func (s *Store) ResolveClean(ctx context.Context, host string, needsCleaning func(pci.Address) bool, answers []CleanRequest) error {
	const op = "Settle"
	var open []CleanRequest
	if err := s.db.Read(ctx, func(tx *sqldb.Tx) (err error) {
		open, err = readCleanRequests(ctx, tx, ` WHERE host = ? ORDER BY address`, host)
		return err
	}); err != nil || len(open) == 0 {
		return wrap(op, err)
	}
	return wrap(op, s.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, w := range open {
			i := slices.IndexFunc(answers, func(a CleanRequest) bool { return a.Address == w.Address && a.Asked.Equal(w.Asked) })
			refusal := ""
			if i >= 0 {
				refusal = answers[i].Refused
			}
			var err error
			switch {
			case refusal != "" && refusal != w.Refused && needsCleaning(w.Address):
				_, err = tx.Exec(ctx, `UPDATE compute_wishes SET refused = ? WHERE host = ? AND address = ? AND asked = ?`, refusal, host, w.Address.String(), micros(w.Asked))
			case i >= 0 && refusal == "" || !needsCleaning(w.Address):
				_, err = tx.Exec(ctx, `DELETE FROM compute_wishes WHERE host = ? AND address = ? AND asked = ?`, host, w.Address.String(), micros(w.Asked))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

func readCleanRequests(ctx context.Context, tx *sqldb.Tx, rest string, args ...any) ([]CleanRequest, error) {
	rows, err := tx.Query(ctx, `SELECT host, address, asked, refused FROM compute_wishes`+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []CleanRequest
	for rows.Next() {
		var w CleanRequest
		var address string
		var asked int64
		if err := rows.Scan(&w.Host, &address, &asked, &w.Refused); err != nil {
			return nil, err
		}
		if w.Address, err = pci.ParseAddress(address); err != nil {
			return nil, fault.New(fault.Internal, "", "a wish in the database names the device %q: %w", address, err)
		}
		w.Asked = time.UnixMicro(asked).UTC()
		list = append(list, w)
	}
	return list, rows.Err()
}

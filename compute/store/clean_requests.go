package store

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/sqldb"
)

// CleanRequest is an operator's request to clean a device for one-time use. It is kept until the device is clean.
type CleanRequest struct {
	Host    string
	Address pci.Address
	Asked   time.Time // to the microsecond; identifies the request
	Refused string    // why the agent did not clean the device; empty: no answer yet
}

// RequestClean stores a clean request, replaces an earlier one for the same device, and notifies the subscribers of the
// host.
func (s *Store) RequestClean(ctx context.Context, r CleanRequest) error {
	err := s.db.Write(ctx, func(tx *sqldb.Tx) error {
		if err := tx.Upsert(ctx, "compute_clean_requests", []string{"host", "address"}, []string{"asked", "refused"},
			r.Host, r.Address.String(), micros(r.Asked), ""); err != nil {
			return err
		}
		return raiseRevisions(ctx, tx, r.Host)
	})
	if err == nil {
		s.notify(r.Host)
	}
	return wrap(err)
}

// CleanRequests lists the clean requests of all hosts, including refused ones, sorted by host and address.
func (s *Store) CleanRequests(ctx context.Context) ([]CleanRequest, error) {
	var list []CleanRequest
	err := s.db.ReadOne(ctx, func(tx *sqldb.Tx) (err error) {
		list, err = readCleanRequests(ctx, tx, ` ORDER BY host, address`)
		return err
	})
	return list, wrap(err)
}

// ResolveClean applies the answers of a host's agent to clean requests. It removes requests for devices that do not
// need cleaning any more and records answers with Refused. An answer to an earlier request for the device is ignored.
func (s *Store) ResolveClean(
	ctx context.Context, host string, needsCleaning func(pci.Address) bool, answers []CleanRequest,
) error {
	var open []CleanRequest
	if err := s.db.ReadOne(ctx, func(tx *sqldb.Tx) (err error) {
		open, err = readCleanRequests(ctx, tx, ` WHERE host = ? ORDER BY address`, host)
		return err
	}); err != nil || len(open) == 0 {
		return wrap(err)
	}
	return wrap(s.db.Write(ctx, func(tx *sqldb.Tx) error {
		for _, r := range open {
			i := slices.IndexFunc(answers, func(a CleanRequest) bool {
				return a.Address == r.Address && a.Asked.Equal(r.Asked)
			})
			refusal := ""
			if i >= 0 {
				refusal = answers[i].Refused
			}
			var err error
			switch {
			case refusal != "" && refusal != r.Refused && needsCleaning(r.Address):
				_, err = tx.Exec(ctx, `UPDATE compute_clean_requests SET refused = ? WHERE host = ? AND address = ? AND asked = ?`,
					refusal, host, r.Address.String(), micros(r.Asked))
			case i >= 0 && refusal == "" || !needsCleaning(r.Address):
				_, err = tx.Exec(ctx, `DELETE FROM compute_clean_requests WHERE host = ? AND address = ? AND asked = ?`,
					host, r.Address.String(), micros(r.Asked))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// readCleanRequests reads the clean requests that the rest of the statement selects.
func readCleanRequests(ctx context.Context, tx *sqldb.Tx, rest string, args ...any) ([]CleanRequest, error) {
	return sqldb.QueryList(ctx, tx, cleanRequestColumns+rest, args, scanCleanRequest)
}

const cleanRequestColumns = `SELECT host, address, asked, refused FROM compute_clean_requests`

func scanCleanRequest(rows *sql.Rows) (r CleanRequest, err error) {
	var address string
	var asked int64
	if err := rows.Scan(&r.Host, &address, &asked, &r.Refused); err != nil {
		return r, err
	}
	if r.Address, err = pci.ParseAddress(address); err != nil {
		return r, fault.New(fault.Internal, "cannot read a clean request: device address %q: %w", address, err)
	}
	r.Asked = time.UnixMicro(asked).UTC()
	return r, nil
}

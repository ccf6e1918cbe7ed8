package store

import (
	"context"

	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// readServer reads a server by id; fault.NotFound.
func readServer(ctx context.Context, tx *sqldb.Tx, id string) (lifecycle.Server, error) {
	list, err := readServers(ctx, tx, ` WHERE id = ?`, id)
	if err != nil {
		return lifecycle.Server{}, err
	}
	if len(list) == 0 {
		return lifecycle.Server{}, fault.New(fault.NotFound, "", "there is no server %s", id)
	}
	return list[0], nil
}

// readServers reads the records of the rows that the rest of the statement selects.
func readServers(ctx context.Context, tx *sqldb.Tx, rest string, args ...any) ([]lifecycle.Server, error) {
	rows, err := tx.Query(ctx, `SELECT id, record FROM compute_servers`+rest, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []lifecycle.Server
	for rows.Next() {
		var id string
		var record []byte
		if err := rows.Scan(&id, &record); err != nil {
			return nil, err
		}
		server, err := decodeServer(id, record)
		if err != nil {
			return nil, err
		}
		list = append(list, server)
	}
	return list, rows.Err()
}

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/openberth/berth/compute/quota"
	"github.com/openberth/berth/compute/record"
	"github.com/openberth/berth/sqldb"
)

// Schema returns how many migrations a database records, and how many this program has. It writes nothing. It returns
// fault.Invalid for a database that Open does not accept.
func Schema(ctx context.Context, db *sqldb.DB) (recorded, all int, err error) {
	recorded, err = sqldb.Recorded(ctx, db, "compute_schema", schema, "compute_versions")
	return recorded, len(schema), err
}

// Unreadable decodes every record of a database with the present schema, and returns an error for each that cannot be
// decoded, and the number of records. It writes nothing. err is an error of the database.
func Unreadable(ctx context.Context, db *sqldb.DB) (bad []error, records int, err error) {
	for _, of := range []struct {
		query  string
		decode func(id string, text []byte) error
	}{
		{`SELECT id, record FROM compute_servers ORDER BY id`, func(id string, text []byte) error {
			_, err := record.DecodeServer(id, text)
			return err
		}},
		{`SELECT name, report FROM compute_hosts ORDER BY name`, func(name string, text []byte) error {
			if len(text) == 0 {
				return nil // no agent has reported
			}
			_, err := record.DecodeHost(name, text)
			return err
		}},
		{`SELECT server, amounts FROM compute_quota_use ORDER BY server`, func(server string, text []byte) error {
			if err := json.Unmarshal(text, &quota.Amounts{}); err != nil {
				return fmt.Errorf("what the server %s counts against quotas is not valid: %w; restore a backup of the "+
					"database", server, err)
			}
			return nil
		}},
	} {
		var some []error
		n := 0
		err := db.Read(ctx, func(tx *sqldb.Tx) error {
			some, n = nil, 0
			return sqldb.QueryEach(ctx, tx, of.query, nil, func(rows *sql.Rows) error {
				var id string
				var text []byte
				if err := rows.Scan(&id, &text); err != nil {
					return err
				}
				n++
				if err := of.decode(id, text); err != nil {
					some = append(some, err)
				}
				return nil
			})
		})
		if err != nil {
			return nil, 0, wrap(err)
		}
		bad, records = append(bad, some...), records+n
	}
	return bad, records, nil
}

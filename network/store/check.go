package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/sqldb"
)

// Schema returns how many migrations a database records, and how many this program has. It writes nothing. It returns
// fault.Invalid for a database that Open does not accept.
func Schema(ctx context.Context, db *sqldb.DB) (recorded, all int, err error) {
	recorded, err = sqldb.Recorded(ctx, db, "network_schema", schema, "network_versions")
	return recorded, len(schema), err
}

// kinds returns a new record of each kind.
func kinds() []Object {
	return []Object{&Network{}, &Subnet{}, &Port{}, &Policy{}, &Agent{}, &Quota{}, &Change{}, &Event{}, &RBACPolicy{},
		&SubnetPool{}, &SecurityGroup{}, &SecurityGroupRule{}}
}

// Unreadable decodes every record of a database with the present schema, and returns an error for each that cannot be
// decoded, and the number of records. It writes nothing. err is an error of the database.
func Unreadable(ctx context.Context, db *sqldb.DB) (bad []error, records int, err error) {
	for i, kind := range kinds() {
		var some []error
		n := 0
		err := db.Read(ctx, func(tx *sqldb.Tx) error {
			some, n = nil, 0
			return sqldb.QueryEach(ctx, tx, `SELECT id, record FROM `+kind.table()+` ORDER BY id`, nil,
				func(rows *sql.Rows) error {
					var id, text string
					if err := rows.Scan(&id, &text); err != nil {
						return err
					}
					n++
					object := kinds()[i] // the fields of one record do not remain for the next
					err := decode(text, object)
					if err == nil && object.Common().ID != id {
						err = fmt.Errorf("it is the record of %q", object.Common().ID)
					}
					if err != nil {
						some = append(some, fault.New(fault.Internal, "cannot read the record %s of %s: %w; start the Berth "+
							"that wrote it, or restore a backup of the database", id, kindName(kind), err))
					}
					return nil
				})
		})
		if err != nil {
			return nil, 0, fault.Wrap("", err)
		}
		bad, records = append(bad, some...), records+n
	}
	return bad, records, nil
}

// kindName returns the name of a kind, for people, such as "security groups".
func kindName(o Object) string {
	return strings.ReplaceAll(strings.TrimPrefix(o.table(), "network_"), "_", " ")
}

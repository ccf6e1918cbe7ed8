package store

import (
	"context"
	"database/sql"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/placement/history"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// Tables of Berth's own in Placement's database. OpenStack's Placement neither reads nor changes them.
const (
	ownSchema    = "berth_placement_schema" // the version table of ownMigrations
	historyTable = "berth_usage_history"
)

// ownMigrations create the tables of Berth's own.
var ownMigrations = []sqldb.Migration{
	sqldb.Table(historyTable, "hour BIGINT NOT NULL, aggregate VARCHAR(36) NOT NULL, content LARGE NOT NULL, "+
		"PRIMARY KEY (hour, aggregate)"),
}

// CreateHistory creates the tables of the usage history, or upgrades them. It returns the errors of sqldb.Migrate.
func (s *Store) CreateHistory(ctx context.Context) error {
	return fault.Wrap("", sqldb.Migrate(ctx, s.db, ownSchema, ownMigrations))
}

// WholeCloud is the key of the stocks of all providers, among those of aggregates.
const WholeCloud resource.AggregateID = ""

// RecordUsage records the stock of each class in a minute, counted since 1970: of WholeCloud and of aggregates. Of
// several processes that record the same minute, the first one counts: recorded is false for the others, and after the
// clock was set back. In the first minute of an hour it deletes the rows of this hour in earlier months.
func (s *Store) RecordUsage(ctx context.Context, minute int64,
	stocks map[resource.AggregateID]map[resource.Class]index.Stock) (recorded bool, err error) {
	hour := minute / history.Minutes
	err = s.write(ctx, "RecordUsage", func(tx *sqldb.Tx) error {
		texts, err := sqldb.QueryMap[resource.AggregateID, string](ctx, tx, "SELECT aggregate, content FROM "+historyTable+
			" WHERE hour = ?", hour)
		if err != nil {
			return err
		}
		before := texts[WholeCloud]
		text, err := history.Row{Hour: hour, Text: before}.Add(minute, stocks[WholeCloud])
		if recorded = text != ""; err != nil || !recorded {
			return err
		}
		if err := writeCloud(ctx, tx, hour, before, text); err != nil {
			return err
		}
		for id, list := range stocks {
			text, err := history.Row{Hour: hour, Text: texts[id]}.Add(minute, list)
			if err != nil {
				return err
			}
			if id == WholeCloud || text == "" {
				continue
			}
			err = tx.Upsert(ctx, historyTable, []string{"hour", "aggregate"}, []string{"content"}, hour, string(id), text)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return recorded, err
}

// writeCloud writes the row of all providers in an hour. before is its text when it was read: if another process has
// changed the hour since, it has changed this row, and the transaction is repeated.
//
// A new row replaces the rows whose place in the month the hour takes. So a clock that is wrong for an hour costs one
// hour of history, and no more.
func writeCloud(ctx context.Context, tx *sqldb.Tx, hour int64, before, text string) error {
	if before != "" {
		done, err := tx.Exec(ctx, "UPDATE "+historyTable+" SET content = ? WHERE hour = ? AND aggregate = ? AND content = ?",
			text, hour, string(WholeCloud), before)
		return sqldb.RequireRow(done, err, sqldb.Retry(concurrent("another process records the usage")))
	}
	if _, err := tx.Exec(ctx, "DELETE FROM "+historyTable+" WHERE hour <> ? AND hour % ? = ?", hour, history.Hours,
		hour%history.Hours); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, "INSERT INTO "+historyTable+" (hour, aggregate, content) VALUES (?, ?, ?)", hour,
		string(WholeCloud), text)
	return retryDuplicate(err)
}

// UsageHistory reads the rows of an aggregate, or of WholeCloud, in the hours from first to last.
func (s *Store) UsageHistory(ctx context.Context, id resource.AggregateID, first, last int64) (list []history.Row,
	err error) {
	err = s.read(ctx, "UsageHistory", func(tx *sqldb.Tx) error {
		list, err = sqldb.QueryList(ctx, tx, "SELECT hour, content FROM "+historyTable+
			" WHERE hour BETWEEN ? AND ? AND aggregate = ?", []any{first, last, string(id)},
			func(rows *sql.Rows) (row history.Row, err error) {
				err = rows.Scan(&row.Hour, &row.Text)
				return row, err
			})
		return err
	})
	return list, err
}

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
	sqldb.Table(historyTable, "hour BIGINT NOT NULL, class VARCHAR(255) NOT NULL, content LARGE NOT NULL, "+
		"PRIMARY KEY (hour, class)"),
}

// CreateHistory creates the tables of the usage history, or upgrades them. It returns the errors of sqldb.Migrate.
func (s *Store) CreateHistory(ctx context.Context) error {
	return fault.Wrap("", sqldb.Migrate(ctx, s.db, ownSchema, ownMigrations))
}

// RecordUsage records the stock of each class in a minute, counted since 1970. Of several processes that record the
// same minute, the first one counts: recorded is false for the others, and after the clock was set back. In the first
// minute of an hour it deletes the rows of this hour in earlier months.
func (s *Store) RecordUsage(ctx context.Context, minute int64, stocks map[resource.Class]index.Stock) (recorded bool,
	err error) {
	err = s.write(ctx, "RecordUsage", func(tx *sqldb.Tx) error {
		hour := minute / history.Minutes
		old, err := readHistory(ctx, tx, hour, hour, nil)
		if err != nil {
			return err
		}
		texts := map[resource.Class]string{}
		for _, row := range old {
			texts[row.Class] = row.Text
		}
		rows, err := history.Add(old, minute, stocks)
		if recorded = len(rows) > 0; err != nil || !recorded {
			return err
		}
		if texts[""] == "" {
			if err := expireHistory(ctx, tx, hour); err != nil {
				return err
			}
		}
		return writeHistory(ctx, tx, rows, texts)
	})
	return recorded, err
}

// writeHistory writes rows of one hour. texts are those that its rows had. The row of the minutes is first: another
// process that has changed the hour since it was read has changed that row.
func writeHistory(ctx context.Context, tx *sqldb.Tx, rows []history.Row, texts map[resource.Class]string) error {
	var added [][]any
	for _, row := range rows {
		before := texts[row.Class]
		if before == "" {
			added = append(added, []any{row.Hour, string(row.Class), row.Text})
			continue
		}
		done, err := tx.Exec(ctx, "UPDATE "+historyTable+" SET content = ? WHERE hour = ? AND class = ? AND content = ?",
			row.Text, row.Hour, string(row.Class), before)
		if err := sqldb.RequireRow(done, err, sqldb.Retry(concurrent("another process records the usage"))); err != nil {
			return err
		}
	}
	return retryDuplicate(insert(ctx, tx, historyTable, "hour, class, content", added))
}

// expireHistory deletes the rows whose place in the month an hour takes. So a clock that is wrong for an hour costs one
// hour of history, and no more.
func expireHistory(ctx context.Context, tx *sqldb.Tx, hour int64) error {
	_, err := tx.Exec(ctx, "DELETE FROM "+historyTable+" WHERE hour <> ? AND hour % ? = ?", hour, history.Hours,
		hour%history.Hours)
	return err
}

// UsageHistory reads the rows of the hours from first to last of some classes, or of all without classes.
func (s *Store) UsageHistory(ctx context.Context, first, last int64, classes ...resource.Class) (list []history.Row,
	err error) {
	err = s.read(ctx, "UsageHistory", func(tx *sqldb.Tx) error {
		list, err = readHistory(ctx, tx, first, last, classes)
		return err
	})
	return list, err
}

func readHistory(ctx context.Context, tx *sqldb.Tx, first, last int64, classes []resource.Class) ([]history.Row,
	error) {
	query, args := "SELECT hour, class, content FROM "+historyTable+" WHERE hour BETWEEN ? AND ?", []any{first, last}
	if len(classes) > 0 {
		query += " AND class IN (" + sqldb.Placeholders(len(classes)+1) + ")"
		args = append(append(args, ""), sqldb.ToAny(classes)...)
	}
	return sqldb.QueryList(ctx, tx, query, args, func(rows *sql.Rows) (row history.Row, err error) {
		err = rows.Scan(&row.Hour, &row.Class, &row.Text)
		return row, err
	})
}

package sqldb

import (
	"context"
	"fmt"
	"strings"
)

// Table returns a migration that creates a table and its indexes. An index is named after its table, with its number
// or, as in "size: vcpus, memory_mb", with a name of its own. The migration may be repeated after an interruption.
// LARGE is a text type without a practical limit; MySQL's TEXT ends at 64 KiB. MySQL has no CREATE INDEX IF NOT
// EXISTS, so indexes are part of the table there; its collation is binary, as on the other dialects.
func Table(name, columns string, indexes ...string) Migration {
	return Migration{Name: name, Run: func(ctx context.Context, tx *Tx) error {
		if tx.Dialect == MySQL {
			inside := strings.ReplaceAll(columns, "LARGE", "MEDIUMTEXT")
			for i, on := range indexes {
				index, columns := indexOf(name, i, on)
				inside += fmt.Sprintf(", INDEX %s (%s)", index, columns)
			}
			_, err := tx.Exec(ctx, "CREATE TABLE IF NOT EXISTS "+name+" ("+inside+
				") CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
			return err
		}
		create := "CREATE TABLE IF NOT EXISTS " + name + " (" + strings.ReplaceAll(columns, "LARGE", "TEXT") + ")"
		if _, err := tx.Exec(ctx, create); err != nil {
			return err
		}
		for i, on := range indexes {
			index, columns := indexOf(name, i, on)
			if _, err := tx.Exec(ctx, "CREATE INDEX IF NOT EXISTS "+index+" ON "+name+" ("+columns+")"); err != nil {
				return err
			}
		}
		return nil
	}}
}

// indexOf returns the name and the columns of the index i of a table.
func indexOf(table string, i int, spec string) (name, columns string) {
	if name, columns, named := strings.Cut(spec, ": "); named {
		return table + "_by_" + name, columns
	}
	return fmt.Sprintf("%s_%d", table, i+1), spec
}

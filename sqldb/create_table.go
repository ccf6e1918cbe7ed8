package sqldb

import (
	"context"
	"fmt"
	"strings"
)

// Table returns a migration that creates a table and its indexes. It may be repeated after an interruption. LARGE is a
// text type without a practical limit; MySQL's TEXT ends at 64 KiB. MySQL has no CREATE INDEX IF NOT EXISTS, so indexes
// are part of the table there; its collation is binary, as on the other dialects.
func Table(name, columns string, indexes ...string) Migration {
	return Migration{Name: name, Run: func(ctx context.Context, tx *Tx) error {
		if tx.Dialect == MySQL {
			inside := strings.ReplaceAll(columns, "LARGE", "MEDIUMTEXT")
			for i, on := range indexes {
				inside += fmt.Sprintf(", INDEX %s_%d (%s)", name, i+1, on)
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
			index := fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s_%d ON %s (%s)", name, i+1, name, on)
			if _, err := tx.Exec(ctx, index); err != nil {
				return err
			}
		}
		return nil
	}}
}

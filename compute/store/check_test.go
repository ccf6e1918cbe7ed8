package store

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/sqldb"
)

// Every table of the schema is checked or plain, and none is both.
func TestEveryTableIsCheckedOrPlain(t *testing.T) {
	_, db := openFile(t)
	var names []string
	if err := db.Read(t.Context(), func(tx *sqldb.Tx) (err error) {
		names, err = sqldb.TableNames(t.Context(), tx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, c := range tableChecks {
		listed = append(listed, c.table)
	}
	listed = append(append(listed, plainTables...), "compute_schema")
	for _, name := range names {
		if n := len(slices.DeleteFunc(slices.Clone(listed), func(s string) bool { return s != name })); n != 1 {
			t.Errorf("%s is listed %d times", name, n)
		}
	}
	if len(listed) != len(names) {
		t.Errorf("%d tables are listed, of %d", len(listed), len(names))
	}
}

// A row that cannot be read is named with its table, and the others are read.
func TestUnreadableRowsAreNamed(t *testing.T) {
	_, db := openFile(t)
	for _, statement := range []string{
		`INSERT INTO compute_flavors VALUES ('bad', 'bad', '', 'two', 1, 1, 0, 0, 1, 1, 0)`,
		`INSERT INTO compute_flavors VALUES ('good', 'good', '', 2, 1, 1, 0, 0, 1, 1, 0)`,
		`INSERT INTO compute_server_groups VALUES ('group', 'p', 'u', 'n', 'near', 0, 1, 1)`,
		`INSERT INTO compute_server_groups VALUES ('other', 'p', 'u', 'n', 'affinity', 0, 1, 1)`,
		`INSERT INTO compute_keypairs VALUES ('u', 'key', 1, 'ssh', 'ssh-rsa A', 'f', 'today')`,
		`INSERT INTO compute_migrations VALUES ('move', 1, 's', 'teleport', 'done', 'a', 'b', '', '', 'u', 'p', 1, 1)`,
		`INSERT INTO compute_clean_requests VALUES ('cmp1', '81', 1, '')`,
		`INSERT INTO compute_disabled_devices VALUES ('cmp2', 'd', '0000:81:00.0', '', 1, 0, 0, 0)`,
		`INSERT INTO compute_disabled_devices VALUES ('cmp3', 'd', 'slot', '', 1, 0, 0, 0)`,
		`INSERT INTO compute_quota_use VALUES ('server', 'p', 'u', '{')`,
	} {
		execute(t, db, statement)
	}
	bad, rows, err := Unreadable(context.WithoutCancel(t.Context()), db)
	if err != nil || rows != 10 {
		t.Fatalf("%d rows: %v", rows, err)
	}
	texts := ""
	for _, one := range bad {
		texts += one.Error() + "\n"
	}
	for _, want := range []string{"of compute_flavors", `row group of compute_server_groups: its policy "near"`,
		"of compute_keypairs", `row move of compute_migrations: its kind "teleport"`, "row cmp1 of compute_clean_requests",
		"row cmp3 of compute_disabled_devices", "row server of compute_quota_use"} {
		if !strings.Contains(texts, want) {
			t.Errorf("no %q in %s", want, texts)
		}
	}
	if len(bad) != 7 {
		t.Error(texts)
	}
}

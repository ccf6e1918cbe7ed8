package sqldb

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openberth/berth/fault"
)

// TestPermanentErrorsNameRemedy checks errors that another attempt does not solve, such as a read-only file.
func TestPermanentErrorsNameRemedy(t *testing.T) {
	for _, c := range []struct {
		err  error
		text string
	}{
		{&mysql.MySQLError{Number: 1142, Message: "denied"}, "grant the user"},
		{&mysql.MySQLError{Number: 1290}, "is read-only now"},
		{&pgconn.PgError{Code: "42501"}, "grant the user"},
		{&pgconn.PgError{Code: "53100"}, "free space"},
	} {
		err := withRemedy(fault.Wrap("", c.err))
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), c.text) || !errors.Is(err, c.err) {
			t.Errorf("%v, want one with %q", err, c.text)
		}
	}
	if err := errors.New("other"); withRemedy(err) != err {
		t.Error("an error without a remedy is changed")
	}
	url := fileURL(t)
	db := open(t, url)
	must(t, db.Write(t.Context(), insertRow("a")))
	must(t, db.Write(t.Context(), func(tx *Tx) error {
		_, err := tx.Exec(t.Context(), "PRAGMA query_only = 1")
		return err
	}))
	if err := db.Write(t.Context(), insertRow("b")); !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(fault.TextOf(err), "give Berth's user the right to write") {
		t.Errorf("a read-only database: %v", err)
	}
}

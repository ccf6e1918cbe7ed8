package sqldb

import (
	"github.com/openberth/berth/fault"
)

// openError returns the fault for a database that could not be opened, with what to check.
func (a address) openError(err error) error {
	what := remedy(err)
	switch {
	case isBusy(err):
		return findHolder(a.database).locked("sqldb.Open", a.database, err)
	case a.dialect == SQLite && what != "":
		return fault.New(fault.Unavailable, "sqldb.Open", "%s cannot be opened: %w; %s", a.place(), err, what)
	case a.dialect == SQLite:
		return fault.New(fault.Unavailable, "sqldb.Open", "%s cannot be opened: %w; check that its directory "+
			"exists and that Berth's user may write in it", a.place(), err)
	case answered(err):
		return fault.New(fault.Unavailable, "sqldb.Open", "%s rejects the connection: %w; check user, password and "+
			"database in the connection's URL, and the rights of that user", a.place(), err)
	}
	return fault.New(fault.Unavailable, "sqldb.Open", "%s does not answer: %w; check that it runs, and host and "+
		"port in the connection's URL", a.place(), err)
}

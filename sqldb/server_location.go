package sqldb

import (
	"cmp"
	"net/url"
)

// Location is where the database of a URL is.
type Location struct {
	Dialect  Dialect
	File     string // of SQLite, as the URL has it; empty: in memory
	Host     string // of the others
	Port     int
	User     string
	Password string
	Database string
	Options  url.Values // after "?"
}

// Locate returns where the database of a SQLAlchemy URL is. The fault is Invalid and contains no password.
func Locate(text string) (Location, error) {
	a, err := parseURL(text)
	if err != nil {
		return Location{}, err
	}
	l := Location{Dialect: a.dialect, Options: a.options}
	if a.dialect == SQLite {
		l.File = a.database
		return l, nil
	}
	port := 3306
	if a.dialect == PostgreSQL {
		port = 5432
	}
	l.Host, l.Port = cmp.Or(a.host, "localhost"), cmp.Or(a.port, port)
	l.User, l.Password, l.Database = a.user, a.password, a.database
	return l, nil
}

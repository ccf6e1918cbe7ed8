package sqldb

import (
	"cmp"
	"net/url"
	"strconv"
)

// Location is where the database of a URL is.
type Location struct {
	Dialect  Dialect
	File     string // of SQLite, as the URL has it; empty: in memory
	Host     string // of the others; empty: as PostgreSQL's programs choose it
	Port     int
	User     string
	Password string
	Database string
	Options  url.Values // after "?"
	URL      string     // with the password
}

// Locate returns where the database of a SQLAlchemy URL is. The fault is Invalid and contains no password.
func Locate(text string) (Location, error) {
	a, err := parseURL(text)
	if err != nil {
		return Location{}, err
	}
	l := Location{Dialect: a.dialect, Options: a.options, URL: text}
	if a.dialect == SQLite {
		l.File = a.database
		return l, nil
	}
	l.Host, l.Port = cmp.Or(a.host, "localhost"), cmp.Or(a.port, 3306)
	if a.dialect == PostgreSQL {
		port, _ := strconv.Atoi(cmp.Or(a.options.Get("port"), "5432")) // the driver refuses what is not a number
		l.Host, l.Port = cmp.Or(a.host, a.options.Get("host")), cmp.Or(a.port, port)
	}
	l.User, l.Password, l.Database = a.user, a.password, a.database
	return l, nil
}

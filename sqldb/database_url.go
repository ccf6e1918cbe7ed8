package sqldb

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openberth/berth/fault"
)

// address is a parsed SQLAlchemy URL: dialect[+driver]://[user[:password]@][host[:port]]/[database][?option=value&…].
type address struct {
	dialect        Dialect
	user, password string
	host           string // without brackets
	port           int    // 0 if not given
	database       string // SQLite: the file, relative or absolute; empty: in memory
	options        url.Values
}

// drivers returns the supported names before :// with their dialects. The name of the Python driver is accepted
// because existing files contain it; Berth has its own drivers.
func drivers() map[string]Dialect {
	return map[string]Dialect{
		"sqlite": SQLite, "sqlite+pysqlite": SQLite,
		"mysql": MySQL, "mysql+pymysql": MySQL, "mysql+mysqldb": MySQL, "mysql+mysqlconnector": MySQL,
		"mariadb": MySQL, "mariadb+pymysql": MySQL, "mariadb+mysqldb": MySQL, "mariadb+mariadbconnector": MySQL,
		"postgresql": PostgreSQL, "postgresql+psycopg2": PostgreSQL, "postgresql+psycopg": PostgreSQL,
	}
}

// CheckURL checks the form of a database URL, without opening anything. The fault is Invalid and contains no
// password.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// Describe returns a description of the database of a URL, without credentials, and the file of an SQLite database;
// file is empty for others and for a database in memory.
func Describe(text string) (description, file string, err error) {
	a, err := parseURL(text)
	if err != nil {
		return "", "", err
	}
	if a.dialect == SQLite {
		file = a.database
	}
	return a.place(), file, nil
}

// parseURL parses a SQLAlchemy URL. Its errors name the wrong part and never contain user, password or the values of
// options.
func parseURL(text string) (address, error) {
	name, rest, found := strings.Cut(text, "://")
	if !found {
		return address{}, fault.New(fault.Invalid,
			"the database URL has no \"://\"; write one such as sqlite:////var/lib/berth/placement.db or "+
				"mysql+pymysql://user:password@host/placement")
	}
	dialect, known := drivers()[strings.ToLower(name)]
	if !known {
		return address{}, fault.New(fault.Invalid,
			"the database URL begins with %q, which is not supported; use sqlite, mysql+pymysql, mariadb+pymysql, "+
				"postgresql or postgresql+psycopg2", name)
	}
	a := address{dialect: dialect}
	rest, query, _ := strings.Cut(rest, "?")
	options, err := url.ParseQuery(query)
	if err != nil {
		return address{}, fault.New(fault.Invalid, "the options after \"?\" in the %s URL are not an option=value "+
			"list", dialect)
	}
	a.options = options
	// A password may contain "/" or ":", so the text before the last "@" is cut off first.
	if at := strings.LastIndex(rest, "@"); at >= 0 && dialect != SQLite {
		if a.user, a.password, err = credentials(rest[:at]); err != nil {
			return address{}, err
		}
		rest = rest[at+1:]
	}
	place, database, _ := strings.Cut(rest, "/")
	a.database = database
	if dialect == SQLite {
		if place != "" {
			return address{}, fault.New(fault.Invalid,
				"the SQLite URL names a host (%q); write sqlite:////absolute/path or sqlite:///relative/path", place)
		}
		return a, nil
	}
	if a.host, a.port, err = hostPort(place); err != nil {
		return address{}, err
	}
	if a.database == "" {
		return address{}, fault.New(fault.Invalid, "the %s URL names no database; write it after the host: "+
			"…@host/placement", dialect)
	}
	return a, nil
}

// credentials parses user[:password] and decodes %-escapes.
func credentials(text string) (user, password string, err error) {
	user, password, _ = strings.Cut(text, ":")
	if user, err = url.PathUnescape(user); err == nil {
		password, err = url.PathUnescape(password)
	}
	if err != nil { // its text would contain the password
		return "", "", fault.New(fault.Invalid,
			"a %% in the database URL's user or password is not followed by two hexadecimal digits; write %%25 for "+
				"a %% itself")
	}
	return user, password, nil
}

// hostPort parses host[:port] or [v6]:port.
func hostPort(text string) (string, int, error) {
	host, port := text, ""
	if at := strings.LastIndex(text, ":"); at >= 0 && !strings.HasSuffix(text, "]") {
		host, port = text[:at], text[at+1:]
	}
	bare, ok := strings.CutPrefix(host, "[")
	if ok {
		bare, ok = strings.CutSuffix(bare, "]")
	} else {
		ok = !strings.ContainsAny(host, ":]")
	}
	if !ok {
		return "", 0, fault.New(fault.Invalid, "the database URL's host %q is not valid; write "+
			"an IPv6 address as [2001:db8::1]", text)
	}
	if port == "" {
		return bare, 0, nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return "", 0, fault.New(fault.Invalid, "the database URL's port %q is not a number from 1 to "+
			"65535", port)
	}
	return bare, int(number), nil
}

// checkOptions returns an error for an option that Berth does not support. If Berth ignored it, a mistyped ssl_ca would
// remove protection.
func (a address) checkOptions(known ...string) error {
	for name := range a.options {
		if len(known) == 0 {
			return fault.New(fault.Invalid, "the %s URL's option %q is not supported; it may have "+
				"none, remove the text from \"?\" on", a.dialect, name)
		}
		if !slices.Contains(known, name) {
			return fault.New(fault.Invalid, "the %s URL's option %q is not supported; use %s",
				a.dialect, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// place returns a description of the database for messages, without credentials.
func (a address) place() string {
	if a.dialect == SQLite {
		return "SQLite database " + strconv.Quote(a.database)
	}
	host := a.host
	if host == "" {
		host = "this host"
	} else if a.port != 0 {
		host = net.JoinHostPort(host, strconv.Itoa(a.port))
	}
	return string(a.dialect) + " database " + strconv.Quote(a.database) + " on " + host
}

// parseNumber parses an option that is a whole number of units, seconds or milliseconds, into slot; without the option
// slot does not change.
func (a address) parseNumber(name string, unit time.Duration, slot *time.Duration) error {
	text := a.options.Get(name)
	if text == "" {
		return nil
	}
	number, err := strconv.ParseUint(text, 10, 30)
	if err != nil {
		units := map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds"}[unit]
		return fault.New(fault.Invalid, "%s=%s in the database URL is not a whole number of %s",
			name, text, units)
	}
	*slot = time.Duration(number) * unit
	return nil
}

// orElse returns value, or fallback if value is zero.
func orElse[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

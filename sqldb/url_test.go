package sqldb

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openberth/berth/fault"
)

func TestParseURL(t *testing.T) {
	none := url.Values{}
	cases := []struct {
		url  string
		want address
	}{
		{"sqlite://", address{dialect: SQLite, options: none}},
		{"sqlite:///", address{dialect: SQLite, options: none}},
		{"sqlite:///:memory:", address{dialect: SQLite, database: ":memory:", options: none}},
		{"sqlite:///rel/a.db", address{dialect: SQLite, database: "rel/a.db", options: none}},
		{"sqlite+pysqlite:////abs/a@b.db", address{dialect: SQLite, database: "/abs/a@b.db", options: none}},
		{"mysql+pymysql://berth:s3cret@db.example/placement?charset=utf8",
			address{
				dialect:  MySQL,
				user:     "berth",
				password: "s3cret",
				host:     "db.example",
				database: "placement",
				options:  url.Values{"charset": {"utf8"}},
			}},
		{"mysql://berth:a:b%2Fc/d%40e@[2001:db8::1]:3307/placement",
			address{
				dialect:  MySQL,
				user:     "berth",
				password: "a:b/c/d@e",
				host:     "2001:db8::1",
				port:     3307,
				database: "placement",
				options:  none,
			}},
		{"mariadb+pymysql://u@/p?unix_socket=/run/mysqld/mysqld.sock",
			address{
				dialect:  MySQL,
				user:     "u",
				database: "p",
				options:  url.Values{"unix_socket": {"/run/mysqld/mysqld.sock"}},
			}},
		{"postgresql+psycopg2://u:p@h:5433/d?sslmode=require",
			address{
				dialect:  PostgreSQL,
				user:     "u",
				password: "p",
				host:     "h",
				port:     5433,
				database: "d",
				options:  url.Values{"sslmode": {"require"}},
			}},
		{"postgresql:///d", address{dialect: PostgreSQL, database: "d", options: none}},
	}
	for _, c := range cases {
		t.Run(c.url, func(t *testing.T) {
			got, err := parseURL(c.url)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v\nerror %v", got, c.want, err)
			}
		})
	}
}

// TestOpenErrorsNameWrongPartWithoutPassword opens URLs that are not valid.
func TestOpenErrorsNameWrongPartWithoutPassword(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must(t, os.WriteFile(empty, nil, 0o600))
	cases := []struct{ url, text string }{
		{"", "no \"://\""},
		{"placement.db:s3cret", "no \"://\""},
		{"oracle://u:s3cret@h/d", `begins with "oracle"`},
		{"mysql+asyncmy://u:s3cret@h/d", `begins with "mysql+asyncmy"`},
		{"sqlite://host/a.db", "names a host"},
		{"sqlite:///a.db?mode=ro", `option "mode" is not supported`},
		{"sqlite:////nowhere/at/all/a.db", "cannot be opened"},
		{"mysql://u:s3cret@h", "names no database"},
		{"mysql://u:s3cret@h:port/d", `port "port"`},
		{"mysql://u:s3cret@h:0/d", `port "0"`},
		{"mysql://u:s3cret@fe80::1/d", "IPv6"},
		{"mysql://u:s3cret@[fe80::1/d", "IPv6"},
		{"mysql://u:%s3cret@h/d", "%25"},
		{"mysql://u:s3cret@h/d?ssl_verify=1", `option "ssl_verify" is not supported`},
		{"mysql://u:s3cret@h/d?charset=latin1", "charset=latin1"},
		{"mysql://u:s3cret@h/d?connect_timeout=soon", "connect_timeout=soon"},
		{"mysql://u:s3cret@h/d?ssl_ca=/nowhere.pem", "ssl_ca"},
		{"mysql://u:s3cret@h/d?ssl_ca=" + empty, "no PEM certificate"},
		{"mysql://u:s3cret@h/d?ssl_cert=" + empty, "ssl_cert and ssl_key"},
		{"mysql://u:s3cret@h/d?x=%zz", "option=value"},
		{"mysql://u:s3cret@127.0.0.1:1/d", "does not answer"},
		{"postgresql://u:s3cret@127.0.0.1:1/d", "does not answer"},
		{"postgresql://u:s3cret@h/d?sslmode=maybe", "sslmode"},
		{"postgresql://u:s3cret@h/d?service=x", `option "service" is not supported`},
	}
	for _, c := range cases {
		t.Run(c.url, func(t *testing.T) {
			_, err := Open(t.Context(), c.url)
			if err == nil || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("error %v, want one with %q", err, c.text)
			}
			if kind := fault.KindOf(err); kind != fault.Invalid && kind != fault.Unavailable {
				t.Errorf("kind %s", kind)
			}
		})
	}
}

// TestSQLitePragmas checks the settings that durability and the use by several processes need.
func TestSQLitePragmas(t *testing.T) {
	db := open(t, fileURL(t))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "0",
		"busy_timeout": "5000"} {
		var got string
		must(t, db.writer.pool.QueryRow("PRAGMA "+pragma).Scan(&got))
		if got != want {
			t.Errorf("%s is %s, want %s", pragma, got, want)
		}
	}
	if _, err := db.pool.ExecContext(t.Context(), "DELETE FROM thing"); err == nil {
		t.Error("a reading connection wrote")
	}
}

func TestPlaceholdersAreNumbered(t *testing.T) {
	cases := []struct{ query, want string }{
		{"SELECT 1", "SELECT 1"},
		{"a = ? AND b IN (?,?)", "a = $1 AND b IN ($2,$3)"},
		{"'?' ? \"?\" ?", "'?' $1 \"?\" $2"},
		{"'it''s ?' ?", "'it''s ?' $1"},
		{"? -- why?\n?", "$1 -- why?\n$2"},
		{"? /* ?/?*/ ? /*?", "$1 /* ?/?*/ $2 /*?"},
		{"'open ?", "'open ?"},
		{"a - ? / ?", "a - $1 / $2"},
		{"", ""},
	}
	for _, c := range cases {
		if got := numberPlaceholders(c.query); got != c.want {
			t.Errorf("%q became %q, want %q", c.query, got, c.want)
		}
	}
}

// FuzzParseURL checks that every URL is parsed or rejected with a fault Invalid that does not contain the password.
func FuzzParseURL(f *testing.F) {
	f.Add("mysql+pymysql://user:", "s3cret-pass", "@host:3306/placement?charset=utf8")
	f.Add("postgresql://user:", "s3cret-pass", "@[::1]/placement?sslmode=disable&x=y")
	f.Add("sqlite:///", "s3cret-pass", "")
	f.Add("mysql://", "%zz-s3cret", "@/x")
	f.Fuzz(func(t *testing.T, before, password, after string) {
		a, err := parseURL(before + password + after)
		switch {
		case err == nil:
			if a.dialect == SQLite && a.user+a.password != "" {
				t.Fatalf("SQLite with a user: %+v", a)
			}
		case !fault.Is(err, fault.Invalid):
			t.Fatalf("an error of kind %s: %v", fault.KindOf(err), err)
		case len(password) > 6 && strings.HasSuffix(before, "user:") && strings.HasPrefix(after, "@") &&
			!strings.Contains(before+after, password) && strings.Contains(before, "://user:") && strings.Contains(err.Error(),
			password):
			t.Fatalf("the password %q is shown: %v", password, err)
		}
	})
}

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
		err := withRemedy("op", fault.Wrap("", "inner", c.err))
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), c.text) || !errors.Is(err, c.err) {
			t.Errorf("%v, want one with %q", err, c.text)
		}
	}
	if err := errors.New("other"); withRemedy("op", err) != err {
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

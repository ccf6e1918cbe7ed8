package sqldb

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

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

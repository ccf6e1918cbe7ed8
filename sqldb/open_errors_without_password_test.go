package sqldb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

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

package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/settings"
)

// Without [glance] imageClient returns nil. With it, the address and the account must be complete.
func TestImageClient(t *testing.T) {
	t.Parallel()
	const account = "auth_type = password\nauth_url = http://k:5000\nusername = nova\npassword = p\nuser_domain_name = " +
		"Default\n"
	for _, c := range []struct {
		text string
		none bool   // no client is expected
		says string // the expected error; "": none
	}{
		{"", true, ""},
		{"[glance]\nendpoint_override = http://g:9292\n", false, ""},
		{"[glance]\napi_servers = http://g:9292, http://h:9292/v2\n", false, ""},
		{"[glance]\n" + account, false, ""},
		{"[glance]\nauth_type = http_basic\nusername = n\npassword = p\nendpoint_override = http://g:9292\n", false, ""},
		{"[placement]\nauth_type = http_basic\nusername = n\npassword = p\n[glance]\nauth_section = placement\n" +
			"endpoint_override = http://g:9292\n", false, ""},
		{"[glance]\nauth_type = none\nendpoint = http://g:9292\n", false, ""},
		{"[glance]\nauth_type = http_basic\nusername = n\npassword = p\n", false, "[glance] does not locate"},
		{"[glance]\nauth_type = http_basic\nusername = n\nendpoint_override = http://g:9292\n", false,
			"[glance] password is missing"},
		{"[glance]\nregion_name = R\n", false, "placement.conf:2: [glance] does not locate the image service"},
		{"[glance]\nauth_type = password\nauth_url = http://k:5000\n", false, "[glance] username is missing"},
		{"[glance]\nendpoint_override = https://g\ncafile = /no/such/file\n", false, "[glance] cafile cannot be read"},
	} {
		file := filepath.Join(t.TempDir(), "placement.conf")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := settings.Read(slog.New(slog.DiscardHandler), file)
		if err != nil {
			t.Fatal(err)
		}
		client, err := newImageClient(s.Images, slog.New(slog.DiscardHandler))
		if (err != nil) != (c.says != "") || err == nil && (client == nil) != c.none {
			t.Errorf("%q: %v %v", c.text, client, err)
		}
		if err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.says)) {
			t.Errorf("%q: %v, want %s", c.text, err, c.says)
		}
	}
}

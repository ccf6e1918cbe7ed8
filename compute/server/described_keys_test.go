package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/api/host"
)

// TestPasswordReachesTheGuestOnce tests that the password of a request is returned, is read by the host of the server
// for the config drive, and is not stored after the guest has been built, or after the server has failed.
func TestPasswordReachesTheGuestOnce(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	made := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small", "adminPass": "s3cret!"}}`)
	id, _ := made.dig("server/id").(string)
	if made.status != 202 || made.dig("server/adminPass") != "s3cret!" {
		t.Fatalf("%d %s", made.status, made.text)
	}
	h.assign(id, "cmp1")
	read := func(when, want string) {
		t.Helper()
		if boot := readFirstBoot(t, h, id); boot.AdminPass != want {
			t.Errorf("%s: the host reads %q, want %q", when, boot.AdminPass, want)
		}
		stored, err := h.store.Read(t.Context(), id)
		if err != nil || stored.AdminPass != want {
			t.Errorf("%s: %q is stored, want %q: %v", when, stored.AdminPass, want, err)
		}
	}
	read("before the guest is built", "s3cret!")
	if err := h.guest("cmp1", id, host.Guest{Phase: host.Running}); err != nil {
		t.Fatal(err)
	}
	read("after the guest is built", "")
	rebuilt := h.at("2.1", "POST", "/v2.1/servers/"+id+"/action", `{"rebuild": {"imageRef": "`+imageID+`"}}`)
	password, _ := rebuilt.dig("server/adminPass").(string)
	if rebuilt.status != 202 || len(password) != 12 {
		t.Fatalf("%d %s", rebuilt.status, rebuilt.text)
	}
	read("during a rebuild", password)
	if err := h.guest("cmp1", id, host.Guest{Phase: host.Running, Build: 1}); err != nil {
		t.Fatal(err)
	}
	read("after a rebuild", "")
	if text := h.log.String(); strings.Contains(text, "s3cret") || strings.Contains(text, password) {
		t.Errorf("the log has a password: %s", text)
	}
}

// TestGeneratedPasswords tests that passwords are generated, differ and have characters of each class, and that an
// option hides them.
func TestGeneratedPasswords(t *testing.T) {
	for _, hide := range []bool{false, true} {
		h := startWith(t, func(o *Options) { o.HidePasswords = hide })
		h.flavor("small", nil)
		seen := map[string]bool{}
		for range 20 {
			r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small"}}`)
			password, shown := r.dig("server/adminPass").(string)
			if r.status != 202 || shown == hide || seen[password] && shown {
				t.Fatalf("hide %t: %d %s", hide, r.status, r.text)
			}
			seen[password] = true
			for _, class := range []string{"abcdefghijkmnopqrstuvwxyz", "ABCDEFGHJKLMNPQRSTUVWXYZ", "23456789"} {
				if shown && (len(password) != 12 || !strings.ContainsAny(password, class)) {
					t.Errorf("%q has nothing of %s", password, class)
				}
			}
		}
	}
}

// TestDescribedKeys tests the keys that creation, update, resize and rebuild have in common.
func TestDescribedKeys(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	r := h.at("2.1", "POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small", "imageRef": "`+imageID+`",
		"accessIPv4": "192.0.2.1", "accessIPv6": "2001:db8::1", "OS-DCF:diskConfig": "AUTO"}}`)
	id, _ := r.dig("server/id").(string)
	if r.status != 202 || r.dig("server/OS-DCF:diskConfig") != "AUTO" {
		t.Fatalf("%d %s", r.status, r.text)
	}
	shown := func(r reply, v4, v6, disk string) {
		t.Helper()
		if got := fmt.Sprint(r.dig("server/accessIPv4"), " ", r.dig("server/accessIPv6"), " ",
			r.dig("server/OS-DCF:diskConfig")); got != v4+" "+v6+" "+disk {
			t.Errorf("%d %s; want %s %s %s", r.status, r.text, v4, v6, disk)
		}
	}
	path := "/v2.1/servers/" + id
	shown(h.at("2.1", "GET", path, ""), "192.0.2.1", "2001:db8::1", "AUTO")
	shown(h.at("2.1", "PUT", path, `{"server": {"accessIPv4": "192.0.2.2"}}`), "192.0.2.2", "2001:db8::1", "AUTO")
	shown(h.at("2.1", "PUT", path, `{"server": {"accessIPv6": "", "OS-DCF:diskConfig": "MANUAL"}}`), "192.0.2.2", "",
		"MANUAL")
	h.assign(id, "cmp1")
	if err := h.guest("cmp1", id, host.Guest{Phase: host.Running}); err != nil {
		t.Fatal(err)
	}
	r = h.at("2.90", "POST", path+"/action", `{"rebuild": {"imageRef": "`+imageID+`", "accessIPv4": "192.0.2.3",
		"OS-DCF:diskConfig": "AUTO", "metadata": {"k": "v"}, "description": "d", "preserve_ephemeral": false,
		"hostname": "other"}}`)
	shown(r, "192.0.2.3", "", "AUTO")
	if r.dig("server/metadata/k") != "v" || r.dig("server/description") != "d" ||
		r.dig("server/OS-EXT-SRV-ATTR:hostname") != "other" {
		t.Error(r.text)
	}
	if boot := readFirstBoot(t, h, id); boot.Hostname != "other" {
		t.Errorf("the guest reads the host name %q", boot.Hostname)
	}
	h.flavor("large", nil)
	if err := h.guest("cmp1", id, host.Guest{Phase: host.Running, Build: 1}); err != nil {
		t.Fatal(err)
	}
	create := func(more string) string { return `{"server": {"name": "a", "flavorRef": "small"` + more + `}}` }
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", "/servers", create(`, "accessIPv4": "2001:db8::1"`), 400, "server.accessIPv4"},
		{"2.1", "POST", "/servers", create(`, "accessIPv6": "192.0.2.1"`), 400, "server.accessIPv6"},
		{"2.1", "POST", "/servers", create(`, "adminPass": "` + strings.Repeat("x", 256) + `"`), 400, "server.adminPass"},
		{"2.1", "POST", "/servers", create(`, "OS-DCF:diskConfig": "auto"`), 400, "AUTO or MANUAL"},
		{"2.56", "POST", "/servers", create(`, "networks": "none", "personality": [{"path": "/a", "contents": ""}]`), 400,
			"write them with user_data"},
		{"2.57", "POST", "/servers", create(`, "networks": "none", "personality": []`), 400, "Additional properties"},
		{"2.62", "POST", "/servers", create(`, "networks": "none", "trusted_image_certificates": ["a"]`), 400,
			"Additional properties"},
		{"2.63", "POST", "/servers", create(`, "networks": "none", "trusted_image_certificates": ["a"]`), 400,
			"Berth does not check signatures"},
		{"2.89", "POST", "/servers", create(`, "networks": "none", "hostname": "web"`), 400, "Additional properties"},
		{"2.90", "POST", "/servers", create(`, "networks": "none", "hostname": "web.example.org"`), 400, "server.hostname"},
		{"2.94", "POST", "/servers", create(`, "networks": "none", "hostname": "web.example.org"`), 202, "adminPass"},
		{"2.94", "POST", "/servers", create(`, "networks": "none", "hostname": "web", "max_count": 2`), 400,
			"several servers"},
	})
	h.exchanges("admin", []exchange{
		{"2.90", "PUT", "/servers/" + id, `{"server": {"hostname": "third"}}`, 200, `"OS-EXT-SRV-ATTR:hostname":"third"`},
	})
}

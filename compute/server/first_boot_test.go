package server

import (
	"fmt"
	"testing"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/fault"
)

// TestKeyAndUserDataOfServer creates a server with a key pair and user data. They are stored with the server, so that
// the key pair can be deleted; only the host of the server and administrators can read the user data.
func TestKeyAndUserDataOfServer(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	const data = "I2Nsb3VkLWNvbmZpZwo="
	h.exchanges("ann:p1", []exchange{
		{"2.2", "POST", "/os-keypairs", fmt.Sprintf(`{"keypair": {"name": "mine", "public_key": %q}}`, publicKey), 201, ""},
		{"2.2", "POST", "/servers", `{"server": {"name": "a", "flavorRef": "small", "key_name": "other"}}`, 400,
			"user ann has no key pair other"},
	})
	made := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small", "key_name": "mine",
		"config_drive": true, "metadata": {"role": "web"}, "user_data": "`+data[:4]+`\n`+data[4:]+`"}}`)
	id, _ := made.dig("server/id").(string)
	if made.status != 202 {
		t.Fatalf("%d %s", made.status, made.text)
	}
	h.exchanges("ann:p1", []exchange{
		{"2.2", "DELETE", "/os-keypairs/mine", "", 204, ""},
		{"2.2", "GET", "/servers/" + id, "", 200, `"key_name":"mine"`},
	})
	h.exchanges("admin", []exchange{
		{"2.3", "GET", "/servers/" + id, "", 200, `"OS-EXT-SRV-ATTR:user_data":"` + data[:4] + `\n` + data[4:] + `"`},
	})
	if r := h.ask("GET", "/v2.1/servers/"+id, "", "OpenStack-API-Version", "compute 2.61"); r.dig("server") == nil ||
		r.dig("server/OS-EXT-SRV-ATTR:user_data") != nil {
		t.Errorf("shown to the owner: %s", r.text)
	}
	if _, err := h.hosts.FirstBoot(t.Context(), "cmp1", id); !fault.Is(err, fault.NotFound) {
		t.Errorf("before the server is assigned to the host: %v", err)
	}
	h.assign(id, "cmp1")
	if _, err := h.hosts.FirstBoot(t.Context(), "cmp2", id); !fault.Is(err, fault.NotFound) {
		t.Errorf("of another host: %v", err)
	}
	if r := h.ask("GET", "/berth/v1/hosts/cmp1/guests/"+id, ""); r.status != 403 {
		t.Errorf("for a user: %d %s", r.status, r.text)
	}
	boot := readFirstBoot(t, h, id)
	if boot.KeyName != "mine" || boot.PublicKey != publicKey || string(boot.UserData) != "#cloud-config\n" ||
		boot.Project != "p1" || boot.Metadata["role"] != "web" {
		t.Errorf("%+v", boot)
	}
}

// TestRebuildChangesKeyAndUserData rebuilds a server with other user data and without its key. A refused rebuild
// restores both.
func TestRebuildChangesKeyAndUserData(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.exchanges("ann:p1", []exchange{
		{"2.2", "POST", "/os-keypairs", fmt.Sprintf(`{"keypair": {"name": "mine", "public_key": %q}}`, publicKey), 201, ""},
	})
	made := h.ask("POST", "/v2.1/servers", `{"server": {"name": "a", "flavorRef": "small", "key_name": "mine",
		"imageRef": "`+imageID+`", "user_data": "MQ=="}}`)
	id, _ := made.dig("server/id").(string)
	h.assign(id, "cmp1")
	if err := h.guest("cmp1", id, host.Guest{Phase: host.Running}); err != nil {
		t.Fatal(err)
	}
	rebuild := func(more string) string { return `{"rebuild": {"imageRef": "` + imageID + `"` + more + `}}` }
	path := "/servers/" + id + "/action"
	h.exchanges("ann:p1", []exchange{
		{"2.53", "POST", path, rebuild(`, "key_name": "mine"`), 400, "2.54"},
		{"2.56", "POST", path, rebuild(`, "user_data": "Mg=="`), 400, "2.57"},
		{"2.54", "POST", path, rebuild(`, "key_name": "other"`), 400, "has no key pair other"},
		{"2.57", "POST", path, rebuild(`, "user_data": "Mg==", "key_name": null`), 202, `"user_data":"Mg=="`},
	})
	if boot := readFirstBoot(t, h, id); boot.KeyName != "" || boot.PublicKey != "" || string(boot.UserData) != "2" {
		t.Errorf("during the rebuild: %+v", boot)
	}
	if err := h.guest("cmp1", id, host.Guest{Phase: host.Refused, Message: "the disk is full"}); err != nil {
		t.Fatal(err)
	}
	if boot := readFirstBoot(t, h, id); boot.KeyName != "mine" || boot.PublicKey != publicKey ||
		string(boot.UserData) != "1" {
		t.Errorf("after a refused rebuild: %+v", boot)
	}
	h.exchanges("ann:p1", []exchange{
		{"2.57", "POST", path, rebuild(""), 202, `"user_data":"MQ=="`},
	})
}

func readFirstBoot(t *testing.T, h *fixture, id string) host.FirstBoot {
	t.Helper()
	boot, err := h.hosts.FirstBoot(t.Context(), "cmp1", id)
	if err != nil {
		t.Fatal(err)
	}
	return boot
}

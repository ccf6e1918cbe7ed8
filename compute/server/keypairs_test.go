package server

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// publicKey is an Ed25519 key, and publicPrint its fingerprint as `ssh-keygen -l -E md5` prints it.
const (
	publicKey   = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann@host"
	publicPrint = "65:96:2d:fc:e8:d5:a9:11:64:0c:0f:ea:00:6e:5b:bd"
)

func TestKeyPairs(t *testing.T) {
	h := start(t)
	create := func(more string) string {
		return fmt.Sprintf(`{"keypair": {"name": "mine", "public_key": %q%s}}`, publicKey, more)
	}
	const path = "/os-keypairs"
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", path, create(""), 200, publicPrint},
		{"2.1", "POST", path, create(""), 409, "Key pair 'mine' already exists."},
		{"2.1", "GET", path + "/mine", "", 200, `"deleted":false`},
		{"2.1", "GET", path, "", 200, `{"keypairs":[{"keypair":{"name":"mine","public_key"`},
		{"2.2", "GET", path, "", 200, `"type":"ssh"`},
		{"2.1", "DELETE", path + "/mine", "", 202, ""},
		{"2.1", "DELETE", path + "/mine", "", 404, "Keypair mine not found for user ann"},
		{"2.1", "POST", path, create(`, "type": "ssh"`), 400, "type"},
		{"2.2", "POST", path, create(`, "type": "ssh"`), 201, `"type":"ssh"`},
		{"2.2", "POST", path, create(`, "type": "x509"`), 400, "Berth supports only ssh"},
		{"2.2", "DELETE", path + "/mine", "", 204, ""},
		{"2.2", "POST", path, `{"keypair": {"name": "a/b"}}`, 400, "letters, digits"},
		{"2.2", "POST", path, `{"keypair": {"name": "a", "public_key": "ssh-rsa"}}`, 400, "Keypair data is invalid"},
		{"2.2", "POST", path, `{"keypair": {"name": "a", "public_key": "ssh-rsa AAAA"}}`, 400, "not of the type"},
		{"2.2", "POST", path, `{"keypair": {"name": "a", "public_key": "ssh-rsa %"}}`, 400, "not base64"},
		{"2.2", "POST", path, `{"keypair": {"name": "a", "public_key": "a b\nc d"}}`, 400, "more than one line"},
		{"2.9", "POST", path, create(`, "user_id": "bob"`), 400, "user_id"},
		{"2.10", "POST", path, create(`, "user_id": "bob"`), 403, "role admin"},
		{"2.10", "GET", path + "?user_id=bob", "", 403, "role admin"},
		{"2.10", "POST", path, create(""), 201, ""},
		{"2.10", "POST", path, `{"keypair": {"name": "zwei", "public_key": "` + publicKey + `"}}`, 201, ""},
		{"2.35", "GET", path + "?limit=1", "", 200, "marker=mine"},
		{"2.35", "GET", path + "?marker=zwei", "", 200, `{"keypairs":[]}`},
		{"2.35", "GET", path + "?marker=none", "", 400, "marker [none] not found"},
	})
	h.exchanges("bob:p1", []exchange{ // key pairs belong to users, not to projects
		{"2.10", "GET", path, "", 200, `{"keypairs":[]}`},
		{"2.10", "GET", path + "/mine", "", 404, "Keypair mine not found for user bob"},
		{"2.10", "DELETE", path + "/mine", "", 404, "Keypair mine not found for user bob"},
	})
	h.exchanges("admin", []exchange{
		{"2.10", "GET", path + "/mine?user_id=ann", "", 200, `"user_id":"ann"`},
		{"2.9", "GET", path + "/mine?user_id=ann", "", 404, "not found for user admin"},
		{"2.10", "DELETE", path + "/zwei?user_id=ann", "", 204, ""},
	})
	h.flavor("small", nil)
	server := func(key string) string {
		return fmt.Sprintf(`{"server": {"name": "a", "flavorRef": "small", "imageRef": "", "key_name": %q}}`, key)
	}
	h.exchanges("bob:p1", []exchange{{"2.1", "POST", "/servers", server("mine"), 400, "Invalid key_name provided"}})
	h.exchanges("ann:p1", []exchange{
		{"2.1", "POST", "/servers", server("mine"), 202, ""},
		{"2.1", "GET", "/servers/detail", "", 200, `"key_name":"mine"`},
	})
}

// TestGeneratedKeyPair checks that a generated private key is complete, belongs to the public key, and is not stored.
func TestGeneratedKeyPair(t *testing.T) {
	h := start(t)
	r := h.ask("POST", "/v2.1/os-keypairs", `{"keypair": {"name": "made"}}`)
	private, _ := r.dig("keypair/private_key").(string)
	block, _ := pem.Decode([]byte(private))
	if block == nil {
		t.Fatal(r.text)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil || key.N.BitLen() != 2048 || key.Validate() != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(public)), "\n") + " Generated-by-Berth"
	if line != r.dig("keypair/public_key") {
		t.Errorf("%s, want %s", r.dig("keypair/public_key"), line)
	}
	if shown := h.ask("GET", "/v2.1/os-keypairs/made", ""); shown.dig("keypair/private_key") != nil ||
		shown.dig("keypair/public_key") != r.dig("keypair/public_key") {
		t.Error(shown.text)
	}
}

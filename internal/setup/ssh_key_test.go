package setup

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/openberth/berth/internal/testenv"
)

// keyCloud returns a cloud whose user has a directory .ssh, and an open record.
func keyCloud(t *testing.T) (*Cloud, *record, *strings.Builder) {
	t.Helper()
	o := tryOptions(t.TempDir())
	o.User = "ann"
	must(t, os.MkdirAll(filepath.Join(o.Home, ".ssh"), 0o700))
	must(t, os.Mkdir(o.Data, 0o700))
	var out strings.Builder
	r, err := openRecord(o)
	must(t, err)
	t.Cleanup(func() { must(t, r.close()) })
	r.Options = o
	return &Cloud{o: o, out: &out}, r, &out
}

// makeKeys makes the keys as Make does, and undoKeys removes those of the record as Undo does.
func makeKeys(t *testing.T, c *Cloud, r *record) {
	t.Helper()
	for _, one := range c.sshKeys() {
		_, err := c.makeOne(t.Context(), r, one)
		must(t, err)
	}
}

func undoKeys(t *testing.T, c *Cloud, r *record) {
	t.Helper()
	c.undoing = true
	for _, one := range c.sshKeys() {
		if r.has(one.id) {
			must(t, undoOne(t.Context(), c, r, one, true))
		}
	}
	c.undoing = false
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// A new key is made and removed. A run that was killed between its files makes the public key of the same private key.
func TestSSHKeyMade(t *testing.T) {
	c, r, _ := keyCloud(t)
	makeKeys(t, c, r)
	private, public := usualKey(c)
	key, text := textOf(t, private), textOf(t, public)
	if info, err := os.Stat(private); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	must(t, os.Remove(public))
	makeKeys(t, c, r)
	if textOf(t, private) != key || textOf(t, public) != text {
		t.Error("the key is another one")
	}
	undoKeys(t, c, r)
	if exists(private) || exists(public) {
		t.Error("the key remains")
	}
}

// A private key of the user stays, with and without a public key, and with a passphrase.
func TestSSHKeyOfUser(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	plain, err := ssh.MarshalPrivateKey(key, "mine")
	must(t, err)
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(key, "mine", []byte("secret"))
	must(t, err)
	line, err := ssh.NewPublicKey(pub)
	must(t, err)
	want := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(line)))
	for name, block := range map[string]*pem.Block{"plain": plain, "locked": locked} {
		c, r, _ := keyCloud(t)
		private, public := usualKey(c)
		own := string(pem.EncodeToMemory(block))
		must(t, os.WriteFile(private, []byte(own), 0o600))
		var problems []string
		checkKey(c, r, func(format string, _ ...any) { problems = append(problems, format) })
		makeKeys(t, c, r)
		if got := textOf(t, public); got != want+" ann@berth\n" || len(problems) > 0 {
			t.Errorf("%s: %s %v", name, got, problems)
		}
		undoKeys(t, c, r)
		if textOf(t, private) != own || exists(public) {
			t.Errorf("%s: the private key differs, or the public key remains", name)
		}
	}
}

// A private key whose public key cannot be read is refused before anything is made.
func TestSSHKeyUnreadable(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	old, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey),
		[]byte("secret"), x509.PEMCipherAES256) //nolint:staticcheck // the old format of keys with a passphrase
	must(t, err)
	for name, text := range map[string]string{"old format": string(pem.EncodeToMemory(old)), "damaged": "x"} {
		c, r, _ := keyCloud(t)
		private, public := usualKey(c)
		must(t, os.WriteFile(private, []byte(text), 0o600))
		err := errors.Join(c.problems(t.Context(), r)...)
		if err == nil || !strings.Contains(err.Error(), "ssh-keygen -y -f "+private) {
			t.Errorf("%s: %v", name, err)
		}
		if textOf(t, private) != text || exists(public) || len(r.Made) > 0 {
			t.Errorf("%s: something was changed: %v", name, r.Made)
		}
	}
}

// Undo keeps a key that the user has put in the place of the one that was made, and finds the made one also when the
// user has another key by then.
func TestSSHKeyReplaced(t *testing.T) {
	c, r, out := keyCloud(t)
	makeKeys(t, c, r)
	private, public := usualKey(c)
	must(t, os.WriteFile(private, []byte("own"), 0o600))
	must(t, os.Remove(public))
	must(t, os.WriteFile(filepath.Join(c.o.Home, ".ssh", "id_rsa.pub"), []byte("ssh-rsa AAAA me"), 0o600))
	undoKeys(t, c, r)
	if textOf(t, private) != "own" || len(r.Made) != 0 || !strings.Contains(out.String(), "kept     the key for ssh") {
		t.Errorf("%v %s", r.Made, out)
	}
}

// A public key that exists is used, and one of the options must exist.
func TestSSHKeyUsed(t *testing.T) {
	c, r, out := keyCloud(t)
	other := filepath.Join(c.o.Home, ".ssh", "id_rsa.pub")
	must(t, os.WriteFile(other, []byte("ssh-rsa AAAA me"), 0o600))
	makeKeys(t, c, r)
	if len(r.Made) > 0 || !strings.Contains(out.String(), "exists   the public key "+other) {
		t.Errorf("%v %s", r.Made, out)
	}
	c.o.Key = filepath.Join(c.o.Home, "none.pub")
	var problems []string
	checkKey(c, r, func(format string, _ ...any) { problems = append(problems, format) })
	if len(problems) != 1 || !strings.Contains(problems[0], "correct ssh_key") {
		t.Error(problems)
	}
}

// What root makes in the home of another user, as under sudo, belongs to that user, and is found and removed again.
func TestHomeOfOtherUser(t *testing.T) {
	testenv.Need(t, "root")
	const user = 65534
	c, r, _ := keyCloud(t)
	must(t, os.Remove(filepath.Join(c.o.Home, ".ssh")))
	must(t, os.Chown(c.o.Home, user, user))
	list := append([]thing{c.directory(filepath.Join(c.o.Home, ".config"), 0o700),
		c.directory(filepath.Join(c.o.Home, ".config", "openstack"), 0o700),
		c.directory(filepath.Join(c.o.Home, ".ssh"), 0o700), c.clouds()}, c.sshKeys()...)
	for _, one := range list {
		_, err := c.makeOne(t.Context(), r, one)
		must(t, err)
	}
	files := 0
	must(t, filepath.WalkDir(c.o.Home, func(path string, entry os.DirEntry, err error) error {
		if path == c.o.Data && err == nil { // it belongs to root
			return filepath.SkipDir
		}
		info, statErr := os.Lstat(path)
		if stat, is := info.Sys().(*syscall.Stat_t); statErr != nil || !is || stat.Uid != user || stat.Gid != user {
			t.Errorf("%s does not belong to the user: %v", path, statErr)
		}
		if !entry.IsDir() {
			files++
		}
		return err
	}))
	if files != 3 {
		t.Errorf("%d files instead of clouds.yaml and two keys", files)
	}
	for i := range list {
		must(t, undoOne(t.Context(), c, r, list[len(list)-1-i], true))
	}
	if left, err := os.ReadDir(c.o.Home); err != nil || len(left) != 1 {
		t.Errorf("%v %v", left, err)
	}
}

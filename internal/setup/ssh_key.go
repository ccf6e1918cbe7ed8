package setup

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// usualKeys are the public keys of ~/.ssh that are used, in this order. The first one is made if there is none.
var usualKeys = []string{"id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub"}

// usualKey returns the files of the key that is made.
func usualKey(c *Cloud) (private, public string) {
	public = filepath.Join(c.o.Home, ".ssh", usualKeys[0])
	return strings.TrimSuffix(public, ".pub"), public
}

// publicKey returns the file of the user's public key; without one it is the file of the key to make.
func publicKey(c *Cloud) string {
	if c.o.Key != "" {
		return c.o.Key
	}
	for _, name := range usualKeys {
		if path := filepath.Join(c.o.Home, ".ssh", name); exists(path) {
			return path
		}
	}
	_, public := usualKey(c)
	return public
}

// sshKeys are the user's private key for ssh, and its public key. Existing ones are used. A private key without a
// public one belongs to the user: only the public key is made from it, and removed.
func (c *Cloud) sshKeys() []thing {
	private, public := usualKey(c)
	used := publicKey(c)
	found := exists(used) || c.o.Key != "" // checkKey has checked the one of the options
	what := [2]string{"the key for ssh " + private, "the public key " + public}
	if used != public && !c.undoing {
		what = [2]string{"the key for ssh of " + used, "the public key " + used}
	}
	return []thing{{id: "key " + private, what: what[0], hint: "rm " + private,
		made: done(exists(private) || found),
		make: func(context.Context) error { return makeKey(c, private) },
		undo: func(context.Context) error { return removeKey(c, private) }},
		{id: "key " + public, what: what[1], hint: "rm " + public, made: done(found),
			make: func(context.Context) error { return makePublicKey(c, private, public) },
			undo: func(context.Context) error { return removeKey(c, public) }}}
}

// keyComment is the comment of the keys that are made.
func keyComment(c *Cloud) string { return c.o.User + "@berth" }

// makeKey writes a new ed25519 key.
func makeKey(c *Cloud, private string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	block, err := ssh.MarshalPrivateKey(key, keyComment(c))
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	return fault.Wrap(fault.Unavailable, datafile.ReplaceKept(private, pem.EncodeToMemory(block), 0o600))
}

// makePublicKey writes the public key of a private key.
func makePublicKey(c *Cloud, private, public string) error {
	key, err := publicKeyOf(private)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " " + keyComment(c) + "\n"
	return fault.Wrap(fault.Unavailable, datafile.ReplaceKept(public, []byte(text), 0o644))
}

// publicKeyOf returns the public key of a private key. The usual format has it in plain text, also with a passphrase.
func publicKeyOf(private string) (ssh.PublicKey, error) {
	text, err := os.ReadFile(private)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err == nil {
		return signer.PublicKey(), nil
	}
	var locked *ssh.PassphraseMissingError
	if errors.As(err, &locked) && locked.PublicKey != nil {
		return locked.PublicKey, nil
	}
	return nil, fault.New(fault.Invalid, "cannot read the public key of %s: %w; write it with `ssh-keygen -y -f %s > "+
		"%s.pub`", private, err, private, private)
}

// removeKey removes a key that was made. A key that the user has put in its place stays.
func removeKey(c *Cloud, path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	if block, _ := pem.Decode(text); block != nil {
		text = block.Bytes
	}
	if !bytes.Contains(text, []byte(keyComment(c))) {
		return kept("it is not the key that `berth init` made")
	}
	return removeFile(path)
}

// checkKey checks that there is a public key, or that it can be made, if compute does not have it yet.
func checkKey(c *Cloud, r *record, add func(string, ...any)) {
	private, _ := usualKey(c)
	switch used := publicKey(c); {
	case exists(used) || r.has("key pair"):
	case c.o.Key != "":
		add("there is no key %s; correct ssh_key", used)
	case exists(private):
		if _, err := publicKeyOf(private); err != nil {
			add("%w", err)
		}
	}
}

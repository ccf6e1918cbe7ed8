// Package join lets further machines join a cloud with a token. A token is valid once and for a limited time. It has
// the fingerprint of the cloud's certificate authority, so that the machine sends its secret to no other server. The
// service keeps the password of the new host's account sealed with the secret: what is on its disk is useless without a
// token.
package join

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// Fingerprint is the SHA-256 of the certificate of an authority.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the fingerprint of a certificate in DER.
func FingerprintOf(der []byte) Fingerprint { return sha256.Sum256(der) }

// Secret is the secret of a token.
type Secret [32]byte

// tokenPrefix begins each token, and has the version of its form.
const tokenPrefix = "berth1_"

// Format returns the text of a token.
func Format(f Fingerprint, s Secret) string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(f[:], s[:]...))
}

// Parse parses a token. It returns fault.Invalid for another text; the error does not have the text.
func Parse(token string) (f Fingerprint, s Secret, err error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(token), tokenPrefix)
	data, bad := base64.RawURLEncoding.DecodeString(text)
	if !ok || bad != nil || len(data) != len(f)+len(s) {
		return f, s, fault.New(fault.Invalid, "the token is not complete; copy the whole line that `berth init token` prints")
	}
	return Fingerprint(data[:len(f)]), Secret(data[len(f):]), nil
}

// Grant is the account of a host.
type Grant struct {
	Account  string `json:"account"`
	Password string `json:"password"`
}

// token is a token as the service keeps it.
type token struct {
	Hash    string    `json:"hash"` // SHA-256 of the secret, in hexadecimal
	Account string    `json:"account"`
	Sealed  []byte    `json:"sealed"` // the password
	Ends    time.Time `json:"ends"`
}

// Tokens are the tokens in the state directory of a cloud.
type Tokens struct{ Dir string }

// The files in the state directory.
const (
	File     = "join.json"
	LockFile = "join.lock"
)

// Create adds a token for an account, which is valid until ends. It returns the secret, and the accounts of the tokens
// that have expired unused, which it removes.
func (t Tokens) Create(g Grant, ends, now time.Time) (s Secret, expired []string, err error) {
	rand.Read(s[:]) // never fails: crypto/rand ends the program instead
	sealed, err := seal(s, g)
	if err != nil {
		return s, nil, err
	}
	err = t.change(func(list []token) ([]token, error) {
		list = slices.DeleteFunc(list, func(one token) bool {
			if one.Ends.After(now) {
				return false
			}
			expired = append(expired, one.Account)
			return true
		})
		return append(list, token{Hash: hashOf(s), Account: g.Account, Sealed: sealed, Ends: ends.UTC()}), nil
	})
	return s, expired, err
}

// Redeem returns the account of a token and removes the token, durably. It returns fault.Forbidden for a token that is
// not known, was used, or has expired.
func (t Tokens) Redeem(s Secret, now time.Time) (g Grant, err error) {
	err = t.change(func(list []token) ([]token, error) {
		hash, found := []byte(hashOf(s)), -1
		for i, one := range list { // all of them, so that the time does not show which is similar
			if subtle.ConstantTimeCompare([]byte(one.Hash), hash) == 1 {
				found = i
			}
		}
		if found < 0 || !list[found].Ends.After(now) {
			return nil, fault.New(fault.Forbidden, "the token is not known, was used or has expired; make another one with "+
				"`berth init token` on the first machine")
		}
		one := list[found]
		if g, err = open(s, one); err != nil {
			return nil, err
		}
		return slices.Delete(list, found, found+1), nil
	})
	return g, err
}

// change changes the tokens under a lock.
func (t Tokens) change(edit func([]token) ([]token, error)) error {
	lock, err := os.OpenFile(filepath.Join(t.Dir, LockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	defer lock.Close() // and so unlocks it
	for {
		if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return fault.Wrap(fault.Unavailable, err)
	}
	path, list := filepath.Join(t.Dir, File), []token(nil)
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Unavailable, "cannot read the tokens: %s: %w; remove the file and make new tokens", path, err)
	}
	if list, err = edit(list); err != nil {
		return err
	}
	if text, err = json.Marshal(list); err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	return fault.Wrap(fault.Unavailable, datafile.Replace(path, text))
}

func hashOf(s Secret) string {
	sum := sha256.Sum256(s[:])
	return hex.EncodeToString(sum[:])
}

// cipherOf returns the cipher of a secret. Each key seals one text only, so the nonce may be constant.
func cipherOf(s Secret) (cipher.AEAD, []byte, error) {
	key := sha256.Sum256(append([]byte("berth join password "), s[:]...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, nil, fault.Wrap(fault.Internal, err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Internal, err)
	}
	return aead, make([]byte, aead.NonceSize()), nil
}

func seal(s Secret, g Grant) ([]byte, error) {
	aead, nonce, err := cipherOf(s)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nonce, []byte(g.Password), []byte(g.Account)), nil
}

func open(s Secret, t token) (Grant, error) {
	aead, nonce, err := cipherOf(s)
	if err != nil {
		return Grant{}, err
	}
	password, err := aead.Open(nil, nonce, t.Sealed, []byte(t.Account))
	if err != nil {
		return Grant{}, fault.New(fault.Internal, "the record of the token is damaged; make another token")
	}
	return Grant{Account: t.Account, Password: string(password)}, nil
}

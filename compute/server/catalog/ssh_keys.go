package catalog

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
)

// rsaBits is the size of generated keys. Until microversion 2.92, which removes the generation, Nova generates RSA keys
// of this size.
const rsaBits = 2048

// generateKey returns a new RSA key pair: the public key as a line of authorized_keys, the private key as PEM.
func generateKey() (public, private string, err error) {
	key, err := rsa.GenerateKey(rand.Reader, rsaBits)
	if err != nil {
		return "", "", fault.Wrap(fault.Internal, err)
	}
	public, err = publicLine(&key.PublicKey)
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return public, string(pem.EncodeToMemory(&block)), err
}

// publicLine returns a public key as a line of authorized_keys.
func publicLine(key *rsa.PublicKey) (string, error) {
	encoded, err := ssh.NewPublicKey(key)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(encoded))) + " Generated-by-Berth", nil
}

// fingerprint returns the MD5 fingerprint of a public key, as the API shows it. It returns fault.Invalid if the text is
// not one line of authorized_keys: the type, the key in base64, and an optional comment.
func fingerprint(public string) (string, error) {
	wrong := func(why string) (string, error) {
		return "", fault.New(fault.Invalid, "Keypair data is invalid: failed to generate fingerprint: %s; "+
			"give one line as in id_ed25519.pub", why)
	}
	if strings.Contains(strings.TrimSpace(public), "\n") {
		return wrong("the public key has more than one line")
	}
	words := strings.Fields(public)
	if len(words) < 2 {
		return wrong("the public key has no type and key")
	}
	blob, err := base64.StdEncoding.DecodeString(words[1])
	if err != nil {
		return wrong("the key is not base64")
	}
	if len(blob) < 4 || int64(binary.BigEndian.Uint32(blob)) > int64(len(blob)-4) ||
		string(blob[4:4+binary.BigEndian.Uint32(blob)]) != words[0] {
		return wrong(fmt.Sprintf("the key is not of the type %q", edge.Clip(words[0])))
	}
	var pairs []string
	for _, b := range md5.Sum(blob) {
		pairs = append(pairs, fmt.Sprintf("%02x", b))
	}
	return strings.Join(pairs, ":"), nil
}

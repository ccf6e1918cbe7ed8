package setup

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// The validity of certificates, and how long before its end a certificate is made again.
const (
	authorityTime   = 10 * 365 * 24 * time.Hour
	certificateTime = 825 * 24 * time.Hour // the longest that common clients accept
	renewBefore     = 60 * 24 * time.Hour
)

// makeAuthority writes a certificate authority: its key, which its owner reads only, and its certificate.
func makeAuthority(keyFile, certFile string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	template := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: "Berth CA"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityTime), IsCA: true, BasicConstraintsValid: true,
		MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	if err := writeKey(keyFile, key, 0o600); err != nil {
		return err
	}
	return fault.Wrap(fault.Unavailable, datafile.ReplaceKept(certFile, encoded("CERTIFICATE", der), 0o644))
}

// makeCertificate writes the certificate of the services for an address of this machine, with that of the authority
// after it, so that `berth init --join` can compare the authority with its token.
func makeCertificate(o Options, now time.Time) error {
	authority, err := readCertificate(o.caFile())
	if err != nil {
		return err
	}
	if !exists(o.caKey()) {
		return fault.New(fault.Conflict, "%s is missing, the key of the authority; restore it", o.caKey())
	}
	authorityKey, err := readKey(o.caKey())
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	names := []string{"localhost"}
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	template := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: "Berth"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateTime), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: names,
		IPAddresses: []net.IP{net.ParseIP(o.host()), net.ParseIP(loopback)}}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	if err := writeKey(o.keyFile(), key, 0o640); err != nil {
		return err
	}
	chain := append(encoded("CERTIFICATE", der), encoded("CERTIFICATE", authority.Raw)...)
	return fault.Wrap(fault.Unavailable, datafile.ReplaceKept(o.certFile(), chain, 0o644))
}

// certificateUsable reports whether the certificate of the services belongs to its key and its authority, has the
// address, and is valid at a time.
func certificateUsable(o Options, at time.Time) bool {
	authority, err1 := readCertificate(o.caFile())
	cert, err2 := readCertificate(o.certFile())
	key, err3 := readKey(o.keyFile())
	if err1 != nil || err2 != nil || err3 != nil || !key.PublicKey.Equal(cert.PublicKey) {
		return false
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: o.host(), CurrentTime: at})
	return err == nil
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // crypto/rand ends the program instead of failing
	return n
}

func encoded(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writeKey(path string, key *ecdsa.PrivateKey, mode os.FileMode) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fault.Wrap(fault.Internal, err)
	}
	return fault.Wrap(fault.Unavailable, datafile.ReplaceKept(path, encoded("PRIVATE KEY", der), mode))
}

// readPEM returns the first block of a file.
func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fault.New(fault.Invalid, "%s is not PEM; restore it, or remove it to have it made again", path)
	}
	return block.Bytes, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	der, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s has no certificate: %w; restore it", path, err)
	}
	return cert, nil
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	der, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	key, ok := parsed.(*ecdsa.PrivateKey)
	if err != nil || !ok {
		return nil, fault.New(fault.Invalid, "%s has no key that `berth init` made; restore it", path)
	}
	return key, nil
}

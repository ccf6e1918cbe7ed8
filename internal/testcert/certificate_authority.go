// Package testcert issues certificates of servers and clients for tests of TLS.
package testcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority of a test.
type CA struct {
	File string // its certificate, in PEM
	Pool *x509.CertPool

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA creates a certificate authority and writes its certificate.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: newSerial(t), Subject: pkix.Name{CommonName: "CA of a test"},
		NotBefore: time.Now().Add(-365 * 24 * time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	if err == nil {
		ca.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	ca.Pool = x509.NewCertPool()
	ca.Pool.AddCert(ca.cert)
	ca.File = filepath.Join(t.TempDir(), "ca.pem")
	write(t, ca.File, "CERTIFICATE", der)
	return ca
}

// Certificate describes a certificate for this machine's loopback addresses, or for a client.
type Certificate struct {
	Name  string    // its subject; empty: "localhost"
	From  time.Time // zero: an hour ago
	Until time.Time // zero: in 90 days
	NoSAN bool      // without subjectAltName

	Address  string // a further IP address of the server; may be empty
	Encipher bool   // with the key usage "key encipherment", which libvirt 9 requires
}

// Issued is a certificate with its key, in PEM.
type Issued struct {
	CertFile, KeyFile string
	Serial            string // hexadecimal
}

// Issue issues a certificate and writes it with its key.
func (ca *CA) Issue(t testing.TB, c Certificate) Issued {
	t.Helper()
	dir := t.TempDir()
	issued := Issued{CertFile: filepath.Join(dir, "cert.pem"), KeyFile: filepath.Join(dir, "key.pem")}
	issued.Serial = ca.Write(t, c, issued.CertFile, issued.KeyFile)
	return issued
}

// Write is Issue to these paths. It replaces existing files. It returns the serial number.
func (ca *CA) Write(t testing.TB, c Certificate, certFile, keyFile string) (serial string) {
	t.Helper()
	if c.Name == "" {
		c.Name = "localhost"
	}
	if c.From.IsZero() {
		c.From = time.Now().Add(-time.Hour)
	}
	if c.Until.IsZero() {
		c.Until = time.Now().Add(90 * 24 * time.Hour)
	}
	template := &x509.Certificate{SerialNumber: newSerial(t), Subject: pkix.Name{CommonName: c.Name}, NotBefore: c.From,
		NotAfter: c.Until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	if c.Encipher {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment
	}
	if !c.NoSAN {
		template.DNSNames = []string{"localhost"}
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
		if c.Address != "" {
			template.IPAddresses = append(template.IPAddresses, net.ParseIP(c.Address))
		}
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, keyFile, "PRIVATE KEY", keyDER)
	write(t, certFile, "CERTIFICATE", der)
	return template.SerialNumber.Text(16)
}

// Client returns the configuration of a client that trusts this CA.
func (ca *CA) Client() *tls.Config {
	return &tls.Config{RootCAs: ca.Pool, MinVersion: tls.VersionTLS12}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newSerial(t testing.TB) *big.Int {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 62))
	if err != nil {
		t.Fatal(err)
	}
	return serial
}

// write replaces a file, so that no reader gets a part of it.
func write(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

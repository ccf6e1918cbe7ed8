package httpserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openberth/berth/fault"
)

// CertificateFiles are the files of the section [ssl], in PEM. Without CA, clients need no certificate.
type CertificateFiles struct{ Cert, Key, CA CertificateFile }

// CertificateFile is a path and the place that sets it, for errors, such as "berth.conf:7: [ssl] cert_file = cert.pem".
type CertificateFile struct{ Path, Place string }

// Certificate is the certificate and the key of listeners. Reload replaces them while connections are open.
type Certificate struct {
	files CertificateFiles
	now   func() time.Time
	log   *slog.Logger

	reload  sync.Mutex // held by Reload
	current atomic.Pointer[keyPair]
}

// keyPair is a certificate with its key, checked, and the configuration of connections with it.
type keyPair struct {
	leaf   *x509.Certificate
	config *tls.Config
}

// expiryNotice is how long before the end of a certificate's validity warnings begin.
const expiryNotice = 30 * 24 * time.Hour

// OpenCertificate reads the files. It returns fault.Invalid, with the option and the file, if one cannot be read, if
// the key does not belong to the certificate, or if the certificate is not valid at this time.
func OpenCertificate(files CertificateFiles, log *slog.Logger) (*Certificate, error) {
	return openCertificate(files, log, time.Now)
}

func openCertificate(files CertificateFiles, log *slog.Logger, now func() time.Time) (*Certificate, error) {
	c := &Certificate{files: files, now: now, log: log}
	pair, err := readKeyPair(files, now())
	if err != nil {
		return nil, err
	}
	c.current.Store(pair)
	c.WarnOfExpiry()
	c.warnOfProperties()
	return c, nil
}

// Reload reads the files again. New connections then use the new certificate; open ones continue with the old one. If a
// file is not valid, Reload logs the reason, and the certificate stays.
func (c *Certificate) Reload() {
	c.reload.Lock()
	defer c.reload.Unlock()
	pair, err := readKeyPair(c.files, c.now())
	if err != nil {
		c.log.Error("certificate not reloaded; the previous one stays in use", "error", fault.TextOf(err))
		return
	}
	c.current.Store(pair)
	c.log.Info("certificate reloaded", "file", c.files.Cert.Path, "subject", pair.leaf.Subject.String(),
		"serial", pair.leaf.SerialNumber.Text(16), "valid_until", pair.leaf.NotAfter.UTC().Format(time.RFC3339))
	c.WarnOfExpiry()
	c.warnOfProperties()
}

// WarnOfExpiry logs a warning if the certificate has expired, or expires within expiryNotice.
func (c *Certificate) WarnOfExpiry() {
	leaf := c.current.Load().leaf
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	switch left := leaf.NotAfter.Sub(c.now()); {
	case left <= 0:
		c.log.Error("certificate has expired: clients refuse it; replace it and send SIGHUP", "file", c.files.Cert.Path,
			"valid_until", until)
	case left <= expiryNotice:
		c.log.Warn("certificate expires soon; replace it and send SIGHUP", "file", c.files.Cert.Path, "valid_until", until,
			"days", int(left.Hours()/24))
	}
}

// warnOfProperties logs a warning if clients cannot verify the certificate, or if others can read the key.
func (c *Certificate) warnOfProperties() {
	if leaf := c.current.Load().leaf; len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
		c.log.Warn("certificate has no subjectAltName: clients refuse it; issue one with the names and addresses that "+
			"clients use", "file", c.files.Cert.Path)
	}
	if info, err := os.Stat(c.files.Key.Path); err == nil && info.Mode().Perm()&0o007 != 0 {
		c.log.Warn("every user of this machine may use the key; remove the permissions of others with chmod o-rwx",
			"file", c.files.Key.Path, "mode", info.Mode().Perm().String())
	}
}

// listener returns a listener whose connections use TLS with the certificate that is current when they begin. A
// handshake that has not begun within limit fails. Half of it was tried: twice as many began again.
func (c *Certificate) listener(inner net.Listener, limit time.Duration) net.Listener {
	turns := newHandshakeTurns(limit)
	return tls.NewListener(inner, &tls.Config{MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			conn := limitedConnOf(hello.Conn)
			conn.setState(connActive) // it waits for the server
			if err := turns.take(hello.Context(), conn); err != nil {
				return nil, err
			}
			conn.setState(connFresh) // only now the client can send its request
			return c.current.Load().config, nil
		}})
}

// readKeyPair reads and checks the files.
func readKeyPair(files CertificateFiles, now time.Time) (*keyPair, error) {
	certPEM, err := files.Cert.read()
	if err != nil {
		return nil, err
	}
	keyPEM, err := files.Key.read()
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(keyPEM), "ENCRYPTED") {
		return nil, files.Key.fault("the key is encrypted, and Berth cannot ask for its passphrase; write the key without " +
			"one, with openssl pkey -in FILE -out FILE")
	}
	if !strings.Contains(string(certPEM), "-----BEGIN CERTIFICATE-----") {
		return nil, files.Cert.fault("the file has no certificate in PEM; write the certificate and then those of its CAs")
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, files.Key.fault("cannot be used with the certificate %s: %w; write the key that belongs to the first "+
			"certificate of that file", files.Cert.Path, err)
	}
	switch leaf := pair.Leaf; {
	case now.After(leaf.NotAfter):
		return nil, files.Cert.fault("the certificate expired on %s; write a new one, or set the clock of this machine",
			leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return nil, files.Cert.fault("the certificate is valid only from %s; set the clock of this machine, or write "+
			"another certificate", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	// HTTP/1.1 only, and no resumed sessions: each connection has one request at a time, and its own handshake with the
	// current certificate. See docs/design/edge.md, decision 10.
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true}
	if files.CA.Path != "" {
		caPEM, err := files.CA.read()
		if err != nil {
			return nil, err
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(caPEM) {
			return nil, files.CA.fault("the file has no certificate in PEM; write those of the CAs that issue the " +
				"certificates of clients")
		}
	}
	return &keyPair{leaf: pair.Leaf, config: config}, nil
}

func (f CertificateFile) read() ([]byte, error) {
	data, err := os.ReadFile(f.Path)
	if wrong, ok := errors.AsType[*fs.PathError](err); ok { // without the path, which Place contains
		err = wrong.Err
	}
	if err != nil {
		return nil, f.fault("cannot be read: %w; write the path of a file that the user of this process may read", err)
	}
	return data, nil
}

func (f CertificateFile) fault(format string, args ...any) error {
	return fault.New(fault.Invalid, strings.ReplaceAll(f.Place, "%", "%%")+": "+format, args...)
}

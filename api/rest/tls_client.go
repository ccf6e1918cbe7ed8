package rest

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/openberth/berth/fault"
)

// TLSFiles are the options for calls to a service at an https URL. Files are in PEM. The zero value verifies the
// service by the CAs of this machine.
type TLSFiles struct {
	CAFile            string // CAs that may issue the service's certificate; empty: those of this machine
	CertFile, KeyFile string // the client's own certificate and key; KeyFile empty: the key is in CertFile
	Insecure          bool   // the certificate of the service is not verified

	Names TLSOptionNames
}

// TLSOptionNames are the names of the options of TLSFiles, for errors, such as "[placement] cafile" or "--ca-file".
type TLSOptionNames struct{ CA, Cert, Key string }

// Or returns f, or, if f sets nothing, other with the names of both.
func (f TLSFiles) Or(other TLSFiles) TLSFiles {
	if f.CAFile != "" || f.CertFile != "" || f.Insecure {
		return f
	}
	other.Names = TLSOptionNames{CA: f.Names.CA + " or " + other.Names.CA, Cert: f.Names.Cert + " or " + other.Names.Cert,
		Key: f.Names.Key + " or " + other.Names.Key}
	return other
}

// maxIdle is how many idle connections a client keeps to one service. A new one costs a TLS handshake.
const maxIdle = 64

// idleTime is how long a connection is kept for the next request. An agent gives a sign of life every ten seconds: it
// keeps one connection beside its stream, so that it needs no TLS handshake for each.
const idleTime = 20 * time.Second

// Transport returns a transport with these files. It uses HTTP/1.1 only: a connection has one request at a time, a
// failed one ends no other, and Guard returns the error of its check. It returns fault.Invalid, with the option and the
// file, if a file cannot be used.
func (f TLSFiles) Transport() (*http.Transport, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.Protocols = config, new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	transport.MaxIdleConnsPerHost, transport.IdleConnTimeout = maxIdle, idleTime
	return transport, nil
}

func (f TLSFiles) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: f.Insecure}
	if f.CAFile != "" {
		pem, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s cannot be read: %w; name a readable file with the certificates of the "+
				"CAs", f.Names.CA, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "%s: %s has no certificate in PEM; name a file with the certificates of "+
				"the CAs", f.Names.CA, f.CAFile)
		}
	}
	if f.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(f.CertFile, cmp.Or(f.KeyFile, f.CertFile))
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s and %s cannot be used: %w; name a certificate and its key",
				f.Names.Cert, f.Names.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// tlsFault returns the fault for a connection that failed because of TLS, or nil if err has another cause. The fault
// names the option that can repair it. base is the address of the service.
func (c *Client) tlsFault(op, base string, err error) error {
	names := c.TLSNames
	if names == (TLSOptionNames{}) {
		names = TLSOptionNames{CA: "the client's option for CAs", Cert: "the client's option for certificates"}
	}
	remedy := ""
	if failed, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		err = failed.Err
		remedy = "replace the certificate of the service, or set the clock of this machine"
		if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
			remedy = "name the file with the certificate of its CA in " + names.CA
		} else if _, other := errors.AsType[x509.HostnameError](err); other {
			remedy = "use a name or an address of the certificate in the URL, or issue a certificate for this one"
		}
		return fault.New(fault.Unavailable, "the certificate of %s is not trusted: %w; %s", base, err, remedy).Of(op)
	}
	if errors.Is(err, http.ErrSchemeMismatch) {
		return fault.New(fault.Unavailable, "%s does not use TLS: %w; write http:// in its URL, or set [ssl] cert_file "+
			"and key_file of the service", base, err).Of(op)
	}
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" { // a TLS alert of the service
		return fault.New(fault.Unavailable, "%s refuses the TLS connection: %w; if it requires client certificates "+
			"([ssl] ca_file there), name one that its CA has issued in %s", base, err, names.Cert).Of(op)
	}
	return nil
}

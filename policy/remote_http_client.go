package policy

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"time"

	"github.com/openberth/berth/fault"
)

// Remote is the configuration of http: and https: checks: the remote_* options of [oslo_policy]. The zero value has the
// defaults.
type Remote struct {
	JSON     bool          // remote_content_type = application/json; else a form
	Timeout  time.Duration // remote_timeout, of one whole call; 0: 60 seconds
	Verify   bool          // remote_ssl_verify_server_crt: the server's certificate is checked
	CAFile   string        // remote_ssl_ca_crt_file
	CertFile string        // remote_ssl_client_crt_file
	KeyFile  string        // remote_ssl_client_key_file
}

// remote is the client of http: and https: checks.
type remote struct {
	asJSON  bool
	timeout time.Duration
	client  *http.Client
}

func newRemote(o Remote) (*remote, error) {
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: !o.Verify}
	if o.Verify && o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, "[oslo_policy] remote_ssl_ca_crt_file cannot be read: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "[oslo_policy] remote_ssl_ca_crt_file = %s has no "+
				"PEM certificate", o.CAFile)
		}
	}
	if o.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fault.New(fault.Invalid, "[oslo_policy] remote_ssl_client_crt_file and …_key_file "+
				"cannot be used: %w", err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	return &remote{asJSON: o.JSON, timeout: o.Timeout, client: &http.Client{Transport: transport}}, nil
}

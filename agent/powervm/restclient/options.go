package restclient

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/fault"
)

// The addresses of the service on the machine of NovaLink, without and with a password.
const (
	localURL = "http://localhost:12080"
	tlsURL   = "https://localhost:12443"
)

// Options are the options of a client. Zero values have defaults, except where a field says otherwise.
type Options struct {
	URL      string // scheme, host and port; empty: the service on this machine
	User     string // for a logon by file only a label
	Password string // empty: logon by file, which needs NovaLink on this machine
	CAFile   string // PEM: CAs that may issue the server's certificate; empty: those of this machine
	PinFile  string // PEM: the one certificate that the server may have; replaces CAFile
	System   string // UUID or name of the managed system; may be empty if the server has only one
	Memento  string // appears in the server's audit log

	Timeout time.Duration       // of one request; 20 minutes, because creating a partition takes long
	Busy    backoff.Exponential // waits while the server is busy
	Poll    time.Duration       // between two requests for the state of a job
	JobTime time.Duration       // after which a job is cancelled
	Log     *slog.Logger        // nil: no log
	// Account reads the user and the password again after the server has refused them; nil: they stay. Without a password
	// here it is not used.
	Account func() (user, password string, err error)
	Refused backoff.Exponential // waits between logons with an account that the server refuses
	Now     func() time.Time    // nil: the clock
	// HTTP reaches a server in the same process; nil: a client with the options for TLS.
	HTTP *http.Client
	// ReadFile reads the session file; nil: os.ReadFile.
	ReadFile func(path string) ([]byte, error)
}

// New returns a client. It opens no connection. The fault is Invalid for options that can never work.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.HTTP != nil {
		return &Client{options: o, account: account{o.User, o.Password}, http: o.HTTP}, nil
	}
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	return &Client{options: o, account: account{o.User, o.Password}, http: &http.Client{Transport: transport,
		// A redirect could send the session to another machine.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

func (o Options) withDefaults() Options {
	if o.URL == "" {
		o.URL = localURL
		if o.Password != "" {
			o.URL = tlsURL
		}
	}
	o.URL = strings.TrimRight(o.URL, "/")
	o.User = cmp.Or(o.User, "berth-agent")
	o.Memento = cmp.Or(o.Memento, "berth")
	o.Timeout = cmp.Or(o.Timeout, 20*time.Minute)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.JobTime = cmp.Or(o.JobTime, 30*time.Minute)
	if o.Refused.First == 0 {
		o.Refused = backoff.Exponential{First: time.Minute, Max: 15 * time.Minute}
	}
	if o.Busy.First == 0 {
		o.Busy = backoff.Exponential{First: 5 * time.Second, Max: 15 * time.Second}
	}
	if o.Log == nil {
		o.Log = discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ReadFile == nil {
		o.ReadFile = os.ReadFile
	}
	return o
}

// check refuses addresses to which no password and no session may be sent.
func (o Options) check() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return fault.New(fault.Invalid, "[powervm] url is not valid: %w; write for example %s", err, tlsURL)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil:
		return fault.New(fault.Invalid, "[powervm] url %q is not valid: it needs a scheme and a host and nothing else; "+
			"write for example %s", u.Redacted(), tlsURL)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return fault.New(fault.Invalid, "[powervm] url %q is not used: the password and the session would cross the "+
			"network without encryption; write https://%s:12443", o.URL, u.Hostname())
	}
	return nil
}

// isLoopback reports whether a host of a URL is this machine.
func isLoopback(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// transport returns the transport with the options for TLS. It uses no proxy: the service is on this machine or in the
// network of the management.
func (o Options) transport() (*http.Transport, error) {
	files := rest.TLSFiles{CAFile: o.CAFile, Names: rest.TLSOptionNames{CA: "[powervm] cafile"}}
	if o.PinFile != "" {
		files.CAFile = ""
	}
	transport, err := files.Transport()
	if err != nil {
		return nil, err
	}
	transport.Proxy = nil
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	if o.PinFile != "" {
		pinned, err := readCertificate(o.PinFile)
		if err != nil {
			return nil, err
		}
		// Verification by CAs is replaced by the comparison with the one certificate.
		transport.TLSClientConfig.InsecureSkipVerify = true
		transport.TLSClientConfig.VerifyConnection = func(s tls.ConnectionState) error {
			return verifyPinned(pinned, s.PeerCertificates, o.Now())
		}
	}
	return transport, nil
}

func verifyPinned(pinned *x509.Certificate, shown []*x509.Certificate, now time.Time) error {
	switch {
	case len(shown) == 0 || !bytes.Equal(shown[0].Raw, pinned.Raw):
		return errors.New("the server shows another certificate than [powervm] pinned_certificate")
	case now.After(pinned.NotAfter):
		return errors.New("the certificate in [powervm] pinned_certificate has expired")
	}
	return nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.New(fault.Invalid, "[powervm] pinned_certificate cannot be read: %w; name a "+
			"readable file", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fault.New(fault.Invalid, "[powervm] pinned_certificate %s has no certificate in PEM",
			path)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fault.New(fault.Invalid, "[powervm] pinned_certificate %s is not valid: %w; name a "+
			"file with one certificate", path, err)
	}
	return c, nil
}

package rest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
)

var testNames = TLSOptionNames{CA: "[x] cafile", Cert: "[x] certfile", Key: "[x] keyfile"}

// newTLSServer returns a server whose certificate is written to caFile. The certificate is valid for 127.0.0.1 and
// example.com.
func newTLSServer(t *testing.T, config *tls.Config) (s *httptest.Server, caFile string) {
	t.Helper()
	s = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		WriteJSON(w, 200, map[string]int{"protocol": r.ProtoMajor})
	}))
	s.TLS, s.EnableHTTP2 = config, true
	s.Config.ErrorLog = log.New(new(strings.Builder), "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(caFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return s, caFile
}

func (f TLSFiles) client(t *testing.T, url string) *Client {
	t.Helper()
	transport, err := f.Transport()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{Base: url, HTTP: &http.Client{Transport: transport}, TLSNames: f.Names}
}

// The service is verified by the CA file. Errors name the option that repairs them.
func TestTLSErrorsNameTheOption(t *testing.T) {
	s, caFile := newTLSServer(t, nil)
	pool := x509.NewCertPool()
	closed, _ := newTLSServer(t, &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	trusting := TLSFiles{CAFile: caFile, Names: testNames}
	for _, c := range []struct {
		name, url string
		files     TLSFiles
		want      string // "": success
	}{
		{"trusted", s.URL, trusting, ""},
		{"insecure", s.URL, TLSFiles{Insecure: true}, ""},
		{"unknown CA", s.URL, TLSFiles{Names: testNames}, "the certificate of " + s.URL + " is not trusted: x509: " +
			"certificate signed by unknown authority; name the file with the certificate of its CA in [x] cafile"},
		{"unknown CA without names", s.URL, TLSFiles{}, "in the client's option for CAs"},
		{"another name", strings.Replace(s.URL, "127.0.0.1", "localhost", 1), trusting, "is not trusted: x509: certificate " +
			"is valid for example.com"},
		{"client certificate", closed.URL, trusting, "name one that its CA has issued in [x] certfile"},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), trusting, "does not use TLS"},
	} {
		var out struct{ Protocol int }
		_, err := c.files.client(t, c.url).Do(t.Context(), "GET", "/", nil, &out)
		switch {
		case c.want == "" && (err != nil || out.Protocol != 1):
			t.Errorf("%s: HTTP/%d %v", c.name, out.Protocol, err)
		case c.want != "" && (!fault.Is(err, fault.Unavailable) || !strings.Contains(fault.TextOf(err), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestWrongTLSFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files TLSFiles
		want  string
	}{
		{TLSFiles{CAFile: "/nowhere"}, "[x] cafile cannot be read: open /nowhere"},
		{TLSFiles{CAFile: empty}, "[x] cafile: " + empty + " has no certificate in PEM"},
		{TLSFiles{CertFile: empty}, "[x] certfile and [x] keyfile cannot be used: "},
	} {
		c.files.Names = testNames
		if _, err := c.files.Transport(); !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.want) {
			t.Errorf("%+v: %v, want %q", c.files, err, c.want)
		}
	}
}

// Files of the configuration have priority over those of flags. If neither sets anything, errors name both.
func TestTLSFilesOr(t *testing.T) {
	flags := TLSFiles{CAFile: "/flag", Names: TLSOptionNames{CA: "--ca-file", Cert: "--cert-file", Key: "--key-file"}}
	if got := (TLSFiles{CAFile: "/conf", Names: testNames}).Or(flags); got.CAFile != "/conf" || got.Names != testNames {
		t.Errorf("%+v", got)
	}
	if got := (TLSFiles{Insecure: true}).Or(flags); got.CAFile != "" || !got.Insecure {
		t.Errorf("%+v", got)
	}
	if got := (TLSFiles{Names: testNames}).Or(flags); got.CAFile != "/flag" || got.Names.CA != "[x] cafile or --ca-file" {
		t.Errorf("%+v", got)
	}
}

// Guard refuses requests over TLS with the error of its check, also on an open connection.
func TestGuardOverTLS(t *testing.T) {
	s, caFile := newTLSServer(t, nil)
	var refusal error
	client := TLSFiles{CAFile: caFile}.client(t, s.URL)
	checks := 0
	client.HTTP = Guard(client.HTTP, func() error {
		if checks++; checks%2 == 0 { // the write after the check of the request
			return refusal
		}
		return nil
	})
	if _, err := client.Do(t.Context(), "GET", "/", nil, nil); err != nil {
		t.Fatal(err)
	}
	checks, refusal = 0, fault.New(fault.Unavailable, "the lease is lost")
	if _, err := client.Do(t.Context(), "GET", "/", nil, nil); !errors.Is(err, refusal) {
		t.Errorf("%v", err)
	}
}

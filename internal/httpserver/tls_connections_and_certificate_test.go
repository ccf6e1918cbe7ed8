package httpserver

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testcert"
	"github.com/openberth/berth/internal/testenv"
)

func filesOf(i testcert.Issued) CertificateFiles {
	return CertificateFiles{Cert: CertificateFile{i.CertFile, "berth.conf:2: [ssl] cert_file = " + i.CertFile},
		Key: CertificateFile{i.KeyFile, "berth.conf:3: [ssl] key_file = " + i.KeyFile}}
}

// Limits of connections, deadlines of slow clients and the end of a server are the same with TLS.
func TestLimitsAndShutdownOverTLS(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"limit for an address": TestLimitForAddress,
		"slow senders":         TestSlowSenders, "slow readers": TestSlowReaders,
		"slow steady client": TestSlowSteadyClientIsServed,
		"started requests":   TestStopAnswersStartedRequests,
		"streams":            TestShutdownEndsStreamsAndFinishesRequests, "shutdown timeout": TestShutdownTimeout,
	} {
		t.Run(name, test)
	}
}

// At the total limit, a new connection replaces an idle one, and waits if all have running requests. All connections
// are counted until they are closed.
func TestTotalLimitOverTLS(t *testing.T) {
	lim := defaultLimits()
	lim.maxTotal = 2
	work, begun := make(chan struct{}), make(chan struct{}, 10)
	s := startServer(t, t.Context(), lim, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/work" {
			begun <- struct{}{}
			<-work
		}
		_, _ = io.WriteString(w, "done")
	}))
	answers := make(chan error, 10)
	get := func(path string) {
		go func() {
			resp, err := s.get(path)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			answers <- err
		}()
	}
	idle := s.raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	reader := bufio.NewReader(idle)
	finished(t, reader)
	for range 2 {
		get("/work") // the second replaces the idle one
		select {
		case <-begun:
		case <-time.After(testenv.Patience):
			t.Fatal("the idle connection is not replaced")
		}
	}
	if _, err := reader.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("the idle connection: %v", err)
	}
	get("/")
	select {
	case err := <-answers:
		t.Errorf("a connection beyond the limit does not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(work)
	for range 3 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	for range 5 { // closed connections are not counted
		if resp, err := s.get("/"); err != nil {
			t.Error(err)
		} else {
			resp.Body.Close()
		}
	}
	s.stop()
	if err := s.end(); err != nil {
		t.Error(err)
	}
}

// Connections without a complete handshake do not block requests, and are closed after headerTimeout.
func TestIncompleteHandshakesOverTLS(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "the first bytes of a handshake": "\x16\x03\x01\x02\x00\x01",
		"not a handshake": "x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lim := defaultLimits()
			lim.maxTotal = 50
			v := newAttackedServer(t, lim)
			v.attack(60, text, "")
			for range 5 {
				v.request("GET", "/resource_providers", "")
				v.request("PUT", "/resource_providers/"+v.provider+"/aggregates", aggregates(500))
			}
		})
		t.Run(name+", alone", func(t *testing.T) {
			t.Parallel()
			lim := defaultLimits()
			lim.headerTimeout = 100 * time.Millisecond
			s := startServer(t, t.Context(), lim, http.NotFoundHandler())
			conn, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(testenv.Patience))
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil && isTimeout(err) {
				t.Error("the connection was not closed")
			}
		})
	}
}

// A client that supports HTTP/2 and TLS 1.3 gets HTTP/1.1. Versions of TLS before 1.2 are refused.
func TestProtocolsOverTLS(t *testing.T) {
	s := startServer(t, t.Context(), defaultLimits(), http.NotFoundHandler())
	for version, want := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		config := s.ca.Client()
		config.MinVersion, config.MaxVersion, config.NextProtos = version, version, []string{"h2", "http/1.1"}
		conn, err := tls.Dial("tcp", s.addr, config)
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err != nil {
			continue
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
			t.Errorf("%s: protocol %q", tls.VersionName(version), got)
		}
		conn.Close()
	}
	resp, err := s.get("/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 1 || resp.TLS == nil {
		t.Errorf("%s, TLS %v", resp.Proto, resp.TLS)
	}
}

// Files that cannot be used are refused with their option and the reason.
func TestWrongCertificateFiles(t *testing.T) {
	ca := testcert.NewCA(t)
	good, empty := ca.Issue(t, testcert.Certificate{}), filepath.Join(t.TempDir(), "empty.pem")
	encrypted := filepath.Join(t.TempDir(), "encrypted.pem")
	for path, text := range map[string]string{empty: "",
		encrypted: "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMII=\n-----END ENCRYPTED PRIVATE KEY-----\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	day := 24 * time.Hour
	expired := ca.Issue(t, testcert.Certificate{From: time.Now().Add(-2 * day), Until: time.Now().Add(-day)})
	early := ca.Issue(t, testcert.Certificate{From: time.Now().Add(day)})
	for name, c := range map[string]struct{ cert, key, ca, want string }{
		"no certificate":   {"/nowhere", good.KeyFile, "", "cert_file: cannot be read: no such file or directory"},
		"a directory":      {good.CertFile, t.TempDir(), "", "key_file: cannot be read: is a directory"},
		"empty":            {empty, good.KeyFile, "", "cert_file: the file has no certificate in PEM"},
		"key not in PEM":   {good.CertFile, empty, "", "key_file: cannot be used with the certificate " + good.CertFile},
		"another key":      {good.CertFile, early.KeyFile, "", "private key does not match public key"},
		"encrypted key":    {good.CertFile, encrypted, "", "key_file: the key is encrypted"},
		"expired":          {expired.CertFile, expired.KeyFile, "", "cert_file: the certificate expired on "},
		"not valid yet":    {early.CertFile, early.KeyFile, "", "cert_file: the certificate is valid only from "},
		"no CA":            {good.CertFile, good.KeyFile, "/nowhere", "ca_file: cannot be read: no such file"},
		"CA file is a key": {good.CertFile, good.KeyFile, good.KeyFile, "ca_file: the file has no certificate"},
	} {
		_, err := OpenCertificate(CertificateFiles{Cert: CertificateFile{c.cert, "cert_file"},
			Key: CertificateFile{c.key, "key_file"}, CA: CertificateFile{c.ca, "ca_file"}}, slog.New(slog.DiscardHandler))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Warnings: a certificate that expires within 30 days, or has expired while the service runs; one without names; a key
// that everybody may read.
func TestCertificateWarnings(t *testing.T) {
	ca := testcert.NewCA(t)
	var log bytes.Buffer
	now := time.Now()
	issued := ca.Issue(t, testcert.Certificate{Until: now.Add(31 * 24 * time.Hour)})
	c, err := openCertificate(filesOf(issued), slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return now })
	if err != nil || log.Len() > 0 {
		t.Fatal(err, log.String())
	}
	expect := func(want string) {
		t.Helper()
		if got := log.String(); !strings.Contains(got, want) || strings.Count(got, "\n") != 1 {
			t.Errorf("want %q: %s", want, got)
		}
		log.Reset()
	}
	now = now.Add(2 * 24 * time.Hour)
	c.WarnOfExpiry()
	expect("certificate expires soon")
	now = now.Add(30 * 24 * time.Hour)
	c.WarnOfExpiry()
	expect("certificate has expired")
	c.Reload()
	expect("certificate not reloaded; the previous one stays in use")
	now = time.Now()
	ca.Write(t, testcert.Certificate{NoSAN: true}, issued.CertFile, issued.KeyFile)
	if err := os.Chmod(issued.KeyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	c.Reload()
	for _, want := range []string{"certificate reloaded", "no subjectAltName",
		"every user of this machine may use the key"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("want %q: %s", want, log.String())
		}
	}
}

// With a CA file, a client needs a certificate of that CA; after Reload, of the new CA. An open connection continues,
// and a client cannot resume a session of the old certificate.
func TestReload(t *testing.T) {
	ca, other := testcert.NewCA(t), testcert.NewCA(t)
	issued := ca.Issue(t, testcert.Certificate{})
	files := filesOf(issued)
	files.CA = CertificateFile{filepath.Join(t.TempDir(), "clients.pem"), "ca_file"}
	copyFile(t, ca.File, files.CA.Path)
	cert, err := OpenCertificate(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	})
	go func() { _ = serve(t.Context(), l, handler, cert, slog.New(slog.DiscardHandler), defaultLimits()) }()
	sessions := tls.NewLRUClientSessionCache(8)
	client := func(i *testcert.Issued) *http.Client {
		config := &tls.Config{RootCAs: ca.Pool, MinVersion: tls.VersionTLS12, ClientSessionCache: sessions}
		if i != nil {
			pair, err := tls.LoadX509KeyPair(i.CertFile, i.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: config, MaxConnsPerHost: 1},
			Timeout: testenv.Patience}
	}
	get := func(c *http.Client) (string, *x509.Certificate, error) {
		resp, err := c.Get("https://" + l.Addr().String())
		if err != nil {
			return "", nil, err
		}
		defer resp.Body.Close()
		name, err := io.ReadAll(resp.Body)
		return string(name), resp.TLS.PeerCertificates[0], err
	}
	alice := ca.Issue(t, testcert.Certificate{Name: "alice"})
	bob := other.Issue(t, testcert.Certificate{Name: "bob"})
	open := client(&alice)
	if name, _, err := get(open); err != nil || name != "alice" {
		t.Fatal(name, err)
	}
	for name, i := range map[string]*testcert.Issued{"none": nil, "another CA": &bob} {
		if _, _, err := get(client(i)); err == nil {
			t.Errorf("client certificate: %s: accepted", name)
		}
	}
	next := ca.Write(t, testcert.Certificate{}, issued.CertFile, issued.KeyFile)
	copyFile(t, other.File, files.CA.Path)
	cert.Reload()
	if name, shown, err := get(client(&bob)); err != nil || name != "bob" || shown.SerialNumber.Text(16) != next {
		t.Error("the new CA is not used:", name, err)
	}
	if _, _, err := get(client(&alice)); err == nil {
		t.Error("a client of the old CA is accepted on a new connection")
	}
	if name, shown, err := get(open); err != nil || name != "alice" || shown.SerialNumber.Text(16) != issued.Serial {
		t.Error("the open connection was closed:", name, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Failed handshakes are logged as warnings once a minute, others at debug level.
func TestFailedHandshakesAreLoggedRarely(t *testing.T) {
	var log bytes.Buffer
	c := &connectionErrors{log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, line := range []string{"http: TLS handshake error from 192.0.2.1:5: EOF\n",
		"http: TLS handshake error from 192.0.2.2:5: EOF\n", "http: superfluous response.WriteHeader call\n"} {
		if n, err := c.Write([]byte(line)); n != len(line) || err != nil {
			t.Error(n, err)
		}
	}
	got := log.String()
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, "client=192.0.2.1:5 reason=EOF") ||
		!strings.Contains(got, "superfluous") {
		t.Error(got)
	}
}

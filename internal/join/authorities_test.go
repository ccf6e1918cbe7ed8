package join

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

// A host gets certificates of both authorities over HTTP. Each is valid for its names, as a server and as a client, and
// for its authority only. An authority stays when it is made again.
func TestCertificatesOfAHost(t *testing.T) {
	var log bytes.Buffer
	a := Authorities{t.TempDir()}
	account := func(r *http.Request) (string, error) {
		name, password, _ := r.BasicAuth()
		if password != "p" {
			return "", fault.New(fault.Forbidden, "the name or the password is wrong")
		}
		return name, nil
	}
	server := httptest.NewServer(CertificatesHandler(a, account, slog.New(slog.NewTextHandler(&log, nil))))
	defer server.Close()
	requests, keys, err := NewRequests([]string{"two", "not a name"}, net.ParseIP("10.0.0.2"))
	must(t, err)
	certify := func(password string) (Certificates, error) {
		return Certify(t.Context(), http.DefaultTransport, server.URL, Grant{"host-1", password}, requests)
	}
	if _, err := certify("p"); err == nil || !strings.Contains(err.Error(), "`berth init` on its first machine") {
		t.Errorf("without authorities: %v", err)
	}
	must(t, a.Make(time.Now()))
	before, err := os.ReadFile(a.path(ForLibvirt, "pem"))
	must(t, err)
	must(t, a.Make(time.Now()))
	if after, _ := os.ReadFile(a.path(ForLibvirt, "pem")); !bytes.Equal(before, after) {
		t.Error("an authority was replaced")
	}
	if info, err := os.Stat(a.path(ForQEMU, "key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key of an authority: %v %v", info, err)
	}
	if _, err := certify("x"); err == nil || !strings.Contains(err.Error(), "status 401") {
		t.Errorf("with a wrong password: %v", err)
	}
	issued, err := certify("p")
	must(t, err)
	for _, purpose := range purposes {
		pair, err := tls.X509KeyPair([]byte(issued[purpose].Certificate), keys[purpose])
		must(t, err)
		for other := range issued {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM([]byte(issued[other].CA))
			for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
				for _, name := range []string{"two", "10.0.0.2", "10.0.0.1"} {
					_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name,
						KeyUsages: []x509.ExtKeyUsage{usage}})
					if good := other == purpose && name != "10.0.0.1"; good != (err == nil) {
						t.Errorf("%s for %s, name %s: %v", purpose, other, name, err)
					}
				}
			}
		}
		if left := time.Until(pair.Leaf.NotAfter); left < 9*365*24*time.Hour {
			t.Errorf("%s is valid for %s", purpose, left)
		}
	}
	if strings.Contains(log.String(), "PRIVATE") || !strings.Contains(log.String(), "account=host-1") {
		t.Error(log.String())
	}
}

// A request that is not valid is refused: of no key, with names that are not of one host, or changed.
func TestRefusedRequests(t *testing.T) {
	a := Authorities{t.TempDir()}
	must(t, a.Make(time.Now()))
	good, _, err := NewRequests([]string{"two"}, net.ParseIP("10.0.0.2"))
	must(t, err)
	changed := bytes.Clone(good[ForQEMU])
	changed[len(changed)-1] ^= 1
	everywhere, _, err := NewRequests([]string{"two"}, net.IPv4zero)
	must(t, err)
	for what, requests := range map[string]Requests{"nothing": {}, "one": {ForLibvirt: good[ForLibvirt]},
		"changed": {ForLibvirt: good[ForLibvirt], ForQEMU: changed}, "0.0.0.0": everywhere,
		"text": {ForLibvirt: []byte("x"), ForQEMU: []byte("x")}} {
		if _, err := a.Issue("host-1", requests, time.Now()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := checkNames([]string{"*"}, nil); err == nil {
		t.Error("a name for all hosts is accepted")
	}
	must(t, os.WriteFile(filepath.Join(a.Dir, "hosts-qemu-ca.key"), []byte("x"), 0o600))
	if _, err := a.Issue("host-1", good, time.Now()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("with a damaged key: %v", err)
	}
}

package join

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/fault"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// authority returns the certificate of a new authority and one that it issued for an address, with its key.
func authority(t *testing.T, address string) (ca []byte, cert tls.Certificate) {
	t.Helper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, IsCA: true,
		BasicConstraintsValid: true, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	ca, err = x509.CreateCertificate(rand.Reader, root, root, caKey.Public(), caKey)
	must(t, err)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: root.NotBefore, NotAfter: root.NotAfter,
		IPAddresses: []net.IP{net.ParseIP(address)}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), caKey)
	must(t, err)
	return ca, tls.Certificate{Certificate: [][]byte{der, ca}, PrivateKey: key}
}

// serve serves tokens with a certificate.
func serve(t *testing.T, tokens Tokens, cert tls.Certificate, log *bytes.Buffer) string {
	t.Helper()
	server := httptest.NewUnstartedServer(Handler(tokens, slog.New(slog.NewTextHandler(log, nil))))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// A token is exchanged once. Nothing secret is in the file or in the log.
func TestExchange(t *testing.T) {
	var log bytes.Buffer
	tokens := Tokens{t.TempDir()}
	ca, cert := authority(t, "127.0.0.1")
	url := serve(t, tokens, cert, &log)
	secret, _, err := tokens.Create(Grant{"host-1", "the password"}, time.Now().Add(time.Minute), time.Now())
	must(t, err)
	text := Format(FingerprintOf(ca), secret)
	file, err := os.ReadFile(filepath.Join(tokens.Dir, File))
	must(t, err)
	if bytes.Contains(file, []byte("the password")) || bytes.Contains(file, []byte(text[len(text)-20:])) {
		t.Errorf("a secret is in the file: %s", file)
	}
	j, err := Call(t.Context(), url+"/", " "+text+"\n")
	if err != nil || j.Account != "host-1" || j.Password != "the password" || j.Local != "127.0.0.1" ||
		!bytes.Contains(j.CA, []byte("BEGIN CERTIFICATE")) {
		t.Errorf("%+v %v", j, err)
	}
	_, err = Call(t.Context(), url, text)
	if !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), "was used") {
		t.Errorf("a second use: %v", err)
	}
	if strings.Contains(log.String(), "the password") || !strings.Contains(log.String(), "account=host-1") {
		t.Error(log.String())
	}
}

// The secret is sent to no server of another authority, and to none with another address in its certificate.
func TestOtherServers(t *testing.T) {
	var log bytes.Buffer
	tokens := Tokens{t.TempDir()}
	secret, _, err := tokens.Create(Grant{"host-1", "p"}, time.Now().Add(time.Minute), time.Now())
	must(t, err)
	ca, _ := authority(t, "127.0.0.1")
	_, other := authority(t, "127.0.0.1")
	wrongCA, wrongName := authority(t, "10.0.0.1")
	for _, c := range []struct {
		cert  tls.Certificate
		pin   []byte
		parts string
	}{{other, ca, "not of the authority"}, {wrongName, wrongCA, "127.0.0.1"}} {
		_, err := Call(t.Context(), serve(t, tokens, c.cert, &log), Format(FingerprintOf(c.pin), secret))
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), c.parts) {
			t.Errorf("%v; want %s", err, c.parts)
		}
	}
	if _, err := tokens.Redeem(secret, time.Now()); err != nil {
		t.Errorf("the token was used: %v", err)
	}
	if strings.Contains(log.String(), "redeemed its token") {
		t.Error(log.String())
	}
	for _, address := range []string{"http://127.0.0.1:1", "127.0.0.1:1", "https://", "https://a/compute"} {
		if _, err := Call(t.Context(), address, Format(FingerprintOf(ca), secret)); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", address, err)
		}
	}
	text := Format(FingerprintOf(ca), secret)
	for _, wrong := range []string{"", "x", text[:len(text)-1], text[1:], text + "A"} {
		if _, _, err := Parse(wrong); !fault.Is(err, fault.Invalid) || wrong != "" && wrong != "x" &&
			strings.Contains(err.Error(), text[20:40]) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// Of many that send one token at the same time one gets the account. An expired token is refused, and is removed with
// the next one.
func TestTokensOnceAndForALimitedTime(t *testing.T) {
	tokens, now := Tokens{t.TempDir()}, time.Now()
	secret, _, err := tokens.Create(Grant{"a", "p"}, now.Add(time.Minute), now)
	must(t, err)
	var work sync.WaitGroup
	var got atomic.Int32
	for range 8 {
		work.Go(func() {
			if _, err := tokens.Redeem(secret, now); err == nil {
				got.Add(1)
			} else if !fault.Is(err, fault.Forbidden) {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if got.Load() != 1 {
		t.Errorf("redeemed %d times", got.Load())
	}
	late, _, err := tokens.Create(Grant{"b", "p"}, now.Add(time.Minute), now)
	must(t, err)
	if _, err := tokens.Redeem(late, now.Add(time.Minute)); !fault.Is(err, fault.Forbidden) {
		t.Error(err)
	}
	_, expired, err := tokens.Create(Grant{"c", "p"}, now.Add(time.Hour), now.Add(2*time.Minute))
	if err != nil || len(expired) != 1 || expired[0] != "b" {
		t.Error(expired, err)
	}
}

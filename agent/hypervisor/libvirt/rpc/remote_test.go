package rpc

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testcert"
)

// dialsURI is the variable of the environment in which TestDialTLS dials an address and prints the result.
const dialsURI = "BERTH_TEST_DIALS_URI"

// TestDialTLS connects to the TLS port of a real libvirtd, in a process in the daemon's network. A certificate of
// another authority is refused on both sides, and a port that is not open fails.
func TestDialTLS(t *testing.T) {
	if uri := os.Getenv(dialsURI); uri != "" {
		c, err := DialURI(t.Context(), uri, 0)
		if err == nil {
			var version string
			version, err = c.LibVersion(t.Context())
			fmt.Println("version", version)
			c.Close()
		}
		fmt.Println("result", err)
		return
	}
	t.Parallel()
	own, other := testcert.NewCA(t), testcert.NewCA(t)
	pki := func(ca, trusted *testcert.CA) string {
		dir := t.TempDir()
		for _, side := range []string{"server", "client"} {
			ca.Write(t, testcert.Certificate{Encipher: true}, filepath.Join(dir, side+"cert.pem"),
				filepath.Join(dir, side+"key.pem"))
		}
		text, err := os.ReadFile(trusted.File)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "cacert.pem"), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	ownPKI := pki(own, own)
	daemon := libvirtd.StartTLS(t, ownPKI)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for uri, says := range map[string]string{
		"qemu+tls://localhost/system?pkipath=" + url.QueryEscape(ownPKI):          "version 9",
		"qemu+tls://127.0.0.1:16514/system?pkipath=" + url.QueryEscape(ownPKI):    "version 9",
		"qemu+tls://localhost/system?pkipath=" + url.QueryEscape(pki(other, own)): "cannot be reached",
		"qemu+tls://localhost/system?pkipath=" + url.QueryEscape(pki(own, other)): "certificate signed by unknown",
		"qemu+tls://localhost/system?pkipath=/none":                               "no such file",
		"qemu+tcp://localhost/system":                                             "connection refused",
	} {
		cmd := daemon.InNetwork(t.Context(), self, "-test.run=^TestDialTLS$")
		cmd.Env = append(os.Environ(), dialsURI+"="+uri)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v, want %s:\n%s", uri, err, says, out)
		}
	}
}

// Only addresses of the system's QEMU that can be dialled are accepted.
func TestCheckURI(t *testing.T) {
	for _, uri := range []string{"qemu+tls://h/system", "qemu+tcp://[2001:db8::1]:5/system",
		"qemu+unix:///system?socket=/s"} {
		if err := CheckURI(uri); err != nil {
			t.Error(err)
		}
	}
	for _, uri := range []string{"", "qemu:///system", "qemu+ssh://h/system", "qemu+tls://h/session", "qemu+tls:///system",
		"qemu+unix:///system", "qemu+unix:///system?socket=s", "%"} {
		if err := CheckURI(uri); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", uri, err)
		}
	}
}

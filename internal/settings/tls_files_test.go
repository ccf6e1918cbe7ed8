package settings

import (
	"strings"
	"testing"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// The options of certificates are read with their places. Files are not opened.
func TestTLSFiles(t *testing.T) {
	s, log, err := readText(t, `[ssl]
cert_file = /etc/berth/cert.pem
key_file = /etc/berth/100%/key.pem
ca_file = /etc/berth/ca.pem
[placement]
cafile = /p/ca.pem
certfile = /p/cert.pem
keyfile = /p/key.pem
[berth]
compute_cafile = /c/ca.pem
compute_certfile = /c/cert.pem
compute_keyfile = /c/key.pem
`)
	if err != nil || log != "" {
		t.Fatal(err, log)
	}
	files := s.TLS.Listener
	if files.Cert.Path != "/etc/berth/cert.pem" || files.CA.Path != "/etc/berth/ca.pem" ||
		!strings.HasSuffix(files.Key.Place, "placement.conf:3: [ssl] key_file = /etc/berth/100%/key.pem") {
		t.Errorf("%+v", files)
	}
	if want := (rest.TLSFiles{CAFile: "/p/ca.pem", CertFile: "/p/cert.pem", KeyFile: "/p/key.pem",
		Names: rest.TLSOptionNames{CA: "[placement] cafile", Cert: "[placement] certfile",
			Key: "[placement] keyfile"}}); s.TLS.Placement != want {
		t.Errorf("%+v", s.TLS.Placement)
	}
	if want := (rest.TLSFiles{CAFile: "/c/ca.pem", CertFile: "/c/cert.pem", KeyFile: "/c/key.pem",
		Names: rest.TLSOptionNames{CA: "[berth] compute_cafile", Cert: "[berth] compute_certfile",
			Key: "[berth] compute_keyfile"}}); s.TLS.Compute != want {
		t.Errorf("%+v", s.TLS.Compute)
	}
	if s, log, err := readText(t, "[placement]\ninsecure = true\n"); err != nil || !s.TLS.Placement.Insecure ||
		!strings.Contains(log, "the certificate of Placement is not verified") {
		t.Error(err, log)
	}
}

// Options that need each other are refused alone.
func TestIncompleteTLSFiles(t *testing.T) {
	for text, want := range map[string]string{
		"[ssl]\ncert_file = /c\n":              "placement.conf:2: [ssl] cert_file = /c: the certificate needs its key",
		"[ssl]\nkey_file = /k\n":               "placement.conf:2: [ssl] key_file = /k: the key needs its certificate",
		"[ssl]\nca_file = /a\n":                "placement.conf:2: [ssl] ca_file = /a: only a listener with TLS",
		"[placement]\nkeyfile = /k\n":          "placement.conf:2: [placement] keyfile = /k: the key needs its certificate",
		"[berth]\ncompute_keyfile = /k\n":      "write compute_certfile",
		"[berth]\ncompute_cafil = /k\n":        "",
		"[placement]\ninsecure = never-mind\n": "placement.conf:2: [placement] insecure = never-mind",
	} {
		_, log, err := readText(t, text)
		if want == "" {
			if err != nil || !strings.Contains(log, "compute_cafile") {
				t.Errorf("%q: no suggestion: %v %s", text, err, log)
			}
			continue
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(fault.TextOf(err), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

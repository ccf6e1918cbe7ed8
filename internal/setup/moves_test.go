package setup

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/join"
)

// The certificates for moves are usable if all files are there, belong together, have the address, and do not end soon.
func TestMoveCertificates(t *testing.T) {
	pki := pkiDir
	defer func() { pkiDir = pki }()
	pkiDir = t.TempDir()
	authorities := join.Authorities{Dir: t.TempDir()}
	must(t, authorities.Make(time.Now()))
	write := func(skip string) {
		requests, keys, err := join.NewRequests([]string{"two"}, net.ParseIP("10.0.0.2"))
		must(t, err)
		issued, err := authorities.Issue("host-1", requests, time.Now())
		must(t, err)
		for _, file := range moveFiles() {
			must(t, os.MkdirAll(filepath.Dir(file.path), 0o755))
			content := map[string][]byte{"ca": []byte(issued[file.purpose].CA), "key": keys[file.purpose],
				"cert": []byte(issued[file.purpose].Certificate)}[file.kind]
			if skip == "" || !strings.HasSuffix(file.path, skip) {
				must(t, replaceOwned(file.path, content, 0o600, os.Getgid()))
			}
		}
	}
	now := time.Now()
	if moveCertificatesUsable("10.0.0.2", now) {
		t.Error("no files are usable")
	}
	write("")
	if !moveCertificatesUsable("10.0.0.2", now.Add(renewBefore)) {
		t.Error("new certificates are not usable")
	}
	if moveCertificatesUsable("10.0.0.3", now) || moveCertificatesUsable("10.0.0.2", now.Add(20*365*24*time.Hour)) {
		t.Error("those of another address, or those that have expired, are usable")
	}
	write("qemu/server-key.pem") // as after a run that was killed while it renewed them
	if moveCertificatesUsable("10.0.0.2", now) {
		t.Error("a certificate is usable with the key of another one")
	}
	write("")
	must(t, os.Remove(filepath.Join(pkiDir, "libvirt", "private", "clientkey.pem")))
	if moveCertificatesUsable("10.0.0.2", now) {
		t.Error("a certificate is usable without its key")
	}
}

// libvirt of a machine is set up only where init starts the units of this machine, and never for a try.
func TestMovesOnlyWithUnits(t *testing.T) {
	var out bytes.Buffer
	dir := t.TempDir()
	o := tryOptions(dir)
	o.Driver, o.Join = Libvirt, "https://10.0.0.1:8770"
	c := &Cloud{o: o, out: &out}
	if moves(c) || len(moveThings(c)) > 0 || moveOptions(c) != "" {
		t.Error("a try sets up the libvirt of the machine")
	}
	checkMoves(c, &record{}, func(format string, args ...any) { t.Errorf(format, args...) })
	if !strings.Contains(out.String(), "not set up for moves") {
		t.Errorf("it is not said: %s", out.String())
	}
}

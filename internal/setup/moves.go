package setup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/backoff"
	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/join"
)

// The directories of libvirt's and QEMU's certificates, and of the units of the administrator.
var (
	pkiDir   = "/etc/pki"
	unitsDir = "/etc/systemd/system"
)

// portTLS is the port of libvirt with TLS.
const portTLS = "16514"

// moves reports whether init sets libvirt up for moves between this host and others: where it also starts the service,
// because libvirt is that of the machine.
func moves(c *Cloud) bool {
	o := c.o
	return o.Driver == Libvirt && !o.NoMoves && (o.Join != "" || o.tls()) && unitOf("berth-agent", o) != "" &&
		daemonUnit() != ""
}

// daemonUnit returns the unit of libvirt that listens for other hosts, without .service: of the one daemon, or of the
// separate ones; empty: neither is installed.
func daemonUnit() string {
	if exists(qemuSocket) && unitFile("virtproxyd-tls.socket") {
		return "virtproxyd"
	}
	if unitFile("libvirtd-tls.socket") {
		return "libvirtd"
	}
	return ""
}

// unitFile reports whether there is a unit of this name.
func unitFile(name string) bool {
	for _, dir := range unitPaths {
		if exists(filepath.Join(dir, name)) {
			return true
		}
	}
	return false
}

// moveThings are what moves between hosts need, in the order in which they are made.
func moveThings(c *Cloud) []thing {
	if !moves(c) && !c.undoing {
		return nil
	}
	var list []thing
	for _, dir := range []string{"", "CA", "libvirt", "libvirt/private", "qemu"} {
		list = append(list, c.directory(filepath.Join(pkiDir, dir), 0o755))
	}
	return append(list, moveCertificates(c), moveSocket(c))
}

// hostAuthorities are the authorities that issue the certificates of hosts, in the state directory.
func hostAuthorities(c *Cloud) thing {
	own := join.Authorities{Dir: c.o.stateDir()}
	return thing{id: "authorities of hosts", what: "the authorities for certificates of libvirt on hosts, in " +
		c.o.stateDir(), hint: "rm " + c.o.stateDir() + "/hosts-*-ca.*", made: done(own.Exist()),
		make: func(context.Context) error { return own.Make(time.Now()) },
		undo: func(context.Context) error { return nil }} // the directory is removed whole
}

// moveFile is a file of the certificates for moves.
type moveFile struct {
	path    string
	purpose string // of the authority
	kind    string // "ca", "cert" or "key"
}

// moveFiles returns the files in the order in which they are written: keys last, so that a complete set has them.
func moveFiles() (list []moveFile) {
	at := func(parts ...string) string { return filepath.Join(append([]string{pkiDir}, parts...)...) }
	list = []moveFile{{at("CA", "cacert.pem"), join.ForLibvirt, "ca"}, {at("qemu", "ca-cert.pem"), join.ForQEMU, "ca"}}
	for _, side := range []string{"server", "client"} {
		list = append(list, moveFile{at("libvirt", side+"cert.pem"), join.ForLibvirt, "cert"},
			moveFile{at("qemu", side+"-cert.pem"), join.ForQEMU, "cert"},
			moveFile{at("libvirt", "private", side+"key.pem"), join.ForLibvirt, "key"},
			moveFile{at("qemu", side+"-key.pem"), join.ForQEMU, "key"})
	}
	return list
}

// moveAddress is the address of this host at which others reach its libvirt.
func moveAddress(c *Cloud) string {
	if c.joined != nil {
		return cmp.Or(c.o.Local, c.joined.Local)
	}
	return c.o.Local
}

const movesID = "certificates of moves"

// moveCertificates are the certificates with which libvirt and QEMU of this host and of others accept each other. Those
// of the service account of QEMU are of another authority, see join.Authorities.
func moveCertificates(c *Cloud) thing {
	return thing{id: movesID, what: "the certificates of libvirt and QEMU for moves between hosts, below " + pkiDir,
		hint: "remove the files cacert.pem, *cert.pem and *key.pem below " + pkiDir + "/CA, libvirt and qemu",
		made: func(context.Context) (bool, error) {
			return moveCertificatesUsable(moveAddress(c), time.Now().Add(renewBefore)), nil
		},
		make: func(ctx context.Context) error { return makeMoveCertificates(ctx, c) },
		undo: func(context.Context) error {
			var all []error
			for _, file := range moveFiles() {
				all = append(all, removeFile(file.path), removeFile(file.path+datafile.Unfinished))
			}
			return errors.Join(all...)
		}}
}

// makeMoveCertificates requests certificates from the cloud, or issues them on its first machine, and writes them.
func makeMoveCertificates(ctx context.Context, c *Cloud) error {
	group, err := groupOfQEMU()
	if err != nil {
		return err
	}
	names := []string{hostName(c)}
	if name, err := os.Hostname(); err == nil && name != names[0] {
		names = append(names, name)
	}
	address := net.ParseIP(moveAddress(c))
	if address == nil {
		return fault.New(fault.Invalid, "%q is not the address of this host for moves; set local_ip in the file of --file",
			moveAddress(c))
	}
	requests, keys, err := join.NewRequests(names, address)
	if err != nil {
		return err
	}
	issued, err := certify(ctx, c, requests)
	if err != nil {
		return err
	}
	for _, file := range moveFiles() {
		content, mode, owner := []byte(issued[file.purpose].CA), fs.FileMode(0o644), 0
		switch file.kind {
		case "cert":
			content = []byte(issued[file.purpose].Certificate)
		case "key":
			content, mode = keys[file.purpose], 0o600
			if file.purpose == join.ForQEMU {
				mode, owner = 0o640, group
			}
		}
		if err := replaceOwned(file.path, content, mode, owner); err != nil {
			return err
		}
	}
	if !moveCertificatesUsable(moveAddress(c), time.Now()) { // libvirt would not start with them
		return fault.New(fault.Conflict, "the certificates of the cloud are not valid on this machine now; compare its "+
			"clock with that of the first machine")
	}
	return systemctl(ctx, "try-restart", daemonUnit()+".service") // it reads its certificates at its start
}

// replaceOwned replaces a file of root durably, with a group and a mode that it has from its beginning.
func replaceOwned(path string, content []byte, mode fs.FileMode, group int) error {
	unfinished := path + datafile.Unfinished
	err := removeFile(unfinished)
	if err == nil {
		err = os.WriteFile(unfinished, content, 0o600)
	}
	if err == nil {
		err = errors.Join(os.Chown(unfinished, -1, group), os.Chmod(unfinished, mode))
	}
	if err == nil {
		err = datafile.Complete(path)
	}
	return fault.Wrap(fault.Unavailable, err)
}

// certify returns certificates from the authorities of the cloud.
func certify(ctx context.Context, c *Cloud, requests join.Requests) (join.Certificates, error) {
	if c.o.Join == "" {
		return join.Authorities{Dir: c.o.stateDir()}.Issue(hostName(c), requests, time.Now())
	}
	transport, err := rest.TLSFiles{CAFile: c.o.caFile()}.Transport()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ { // the service reads a new account within a second
		issued, err := join.Certify(ctx, transport, c.o.Join, c.joined.Grant, requests)
		if !fault.Is(err, fault.Forbidden) || try == accountTries {
			return issued, err
		}
		if err := backoff.Sleep(ctx, accountWait); err != nil {
			return nil, err
		}
	}
}

// How often an account that is not accepted is tried. More failures would delay the next ones.
const (
	accountTries = 3
	accountWait  = 1500 * time.Millisecond
)

// groupOfQEMU returns the group of the user of QEMU, which reads the keys of its certificates.
func groupOfQEMU() (int, error) {
	for _, name := range []string{"libvirt-qemu", "qemu"} { // Debian's, Fedora's
		if u, err := user.Lookup(name); err == nil {
			return strconv.Atoi(u.Gid)
		}
	}
	return 0, fault.New(fault.Conflict, "there is no user libvirt-qemu or qemu, as which guests run; set no_moves: true "+
		"in the file of --file, and set libvirt up yourself (see \"Moves of guests of libvirt\" in the guide)")
}

// moveCertificatesUsable reports whether the certificates are complete, for an address, and valid at a time.
func moveCertificatesUsable(address string, at time.Time) bool {
	authority := map[string]*x509.CertPool{}
	for _, file := range moveFiles() {
		switch file.kind {
		case "ca":
			text, err := os.ReadFile(file.path)
			authority[file.purpose] = x509.NewCertPool()
			if err != nil || !authority[file.purpose].AppendCertsFromPEM(text) {
				return false
			}
		case "cert":
			pair, err := tls.LoadX509KeyPair(file.path, keyOf(file))
			if err != nil {
				return false
			}
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: authority[file.purpose], DNSName: address,
				CurrentTime: at}); err != nil {
				return false
			}
		}
	}
	return true
}

// keyOf returns the file with the key of a certificate.
func keyOf(cert moveFile) string {
	dir, name := filepath.Split(cert.path)
	if cert.purpose == join.ForLibvirt {
		dir = filepath.Join(dir, "private")
	}
	return filepath.Join(dir, name[:len(name)-len("cert.pem")]+"key.pem")
}

// moveSocket is libvirt's listening, with TLS and at the address of this host only.
func moveSocket(c *Cloud) thing {
	daemon := cmp.Or(daemonUnit(), "libvirtd") // it may have been removed before an undo
	unit := daemon + "-tls.socket"
	file := filepath.Join(unitsDir, unit+".d", "berth.conf")
	// At the boot the network may have no address yet.
	text := "[Socket]\nListenStream=\nListenStream=" + net.JoinHostPort(moveAddress(c), portTLS) + "\nFreeBind=yes\n"
	return thing{id: "socket of moves", what: "the unit " + unit + ", with which libvirt listens at " +
		net.JoinHostPort(moveAddress(c), portTLS) + " for other hosts", hint: "systemctl disable --now " + unit + "; rm " +
		file,
		made: func(ctx context.Context) (bool, error) {
			have, err := os.ReadFile(file)
			return err == nil && string(have) == text && systemctl(ctx, "is-active", unit) == nil &&
				systemctl(ctx, "is-enabled", unit) == nil, nil
		},
		make: func(ctx context.Context) error {
			err := fault.Wrap(fault.Unavailable, os.MkdirAll(filepath.Dir(file), 0o755))
			if err == nil {
				err = replaceOwned(file, []byte(text), 0o644, 0)
			}
			if err == nil {
				err = errors.Join(systemctl(ctx, "daemon-reload"), systemctl(ctx, "enable", unit))
			}
			if err == nil {
				err = restartWith(ctx, unit)
			}
			if err != nil { // libvirt of this machine must start without it
				err = errors.Join(err, closeSocket(ctx, daemon, file), systemctl(ctx, "start", daemon+".service"))
			}
			return err
		},
		undo: func(ctx context.Context) error { return closeSocket(ctx, daemon, file) }}
}

// closeSocket ends that a daemon of libvirt listens for other hosts. A daemon that was removed does not listen.
func closeSocket(ctx context.Context, daemon, file string) error {
	var err error
	if unitFile(daemon + "-tls.socket") {
		err = systemctl(ctx, "disable", "--now", daemon+"-tls.socket")
	}
	err = errors.Join(err, removeFile(file))
	_ = os.Remove(filepath.Dir(file)) // others may have a file there
	err = errors.Join(err, systemctl(ctx, "daemon-reload"))
	if unitFile(daemon + ".service") {
		err = errors.Join(err, systemctl(ctx, "try-restart", daemon+".service"))
	}
	return err
}

// restartTries is how often a socket is started. A client of libvirt that connects meanwhile starts the daemon, and
// while that runs systemd refuses to start its socket.
const restartTries = 10

// restartWith starts a socket of libvirt's daemon, and the daemon again. Guests run on.
func restartWith(ctx context.Context, unit string) error {
	for try := 1; ; try++ {
		err := systemctl(ctx, "stop", daemonUnit()+".service")
		if err == nil {
			err = systemctl(ctx, "restart", unit)
		}
		if err == nil {
			return systemctl(ctx, "start", daemonUnit()+".service")
		}
		if try == restartTries || backoff.Sleep(ctx, 500*time.Millisecond) != nil {
			return err
		}
	}
}

// systemctl runs systemctl.
func systemctl(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fault.New(fault.Unavailable, "systemctl %v: %w: %s", args, err, bytes.TrimSpace(out))
	}
	return nil
}

// checkMoves checks that libvirt has no certificates of others.
func checkMoves(c *Cloud, r *record, add func(string, ...any)) {
	several := c.o.Join != "" || c.o.tls()
	switch {
	case !several || r.has(movesID):
		return
	case !moves(c):
		c.say("note     libvirt is not set up for moves between hosts: `berth init` does that only with Berth's units, " +
			"those of libvirt, and without no_moves; \"Moves of guests of libvirt\" in the guide has the commands")
		return
	}
	for _, file := range moveFiles() {
		if exists(file.path) {
			add("%s exists and is not from `berth init`; move it away, or set no_moves: true in the file of --file: then "+
				"libvirt stays as it is", file.path)
			return
		}
	}
}

// moveOptions returns the options of the agent for moves.
func moveOptions(c *Cloud) string {
	if !moves(c) {
		return ""
	}
	return "[libvirt]\nlive_migration_scheme = tls\nlive_migration_with_native_tls = true\n" +
		"live_migration_inbound_addr = " + moveAddress(c) + "\n"
}

package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/openberth/berth/fault"
)

// The ports of libvirt's daemons, and the directories of certificates, which libvirt's own clients use too.
const (
	portTCP = "16509"
	portTLS = "16514"

	pkiCA     = "/etc/pki/CA/cacert.pem"
	pkiClient = "/etc/pki/libvirt/clientcert.pem"
	pkiKey    = "/etc/pki/libvirt/private/clientkey.pem"
)

// CheckURI returns fault.Invalid for an address that DialURI does not support. It supports qemu+tls://HOST/system,
// qemu+tcp://HOST/system and qemu+unix:///system?socket=PATH. With pkipath=DIR, the files cacert.pem, clientcert.pem
// and clientkey.pem in that directory are used instead of those in /etc/pki.
func CheckURI(uri string) error {
	u, err := url.Parse(uri)
	if err == nil {
		switch {
		case u.Path != "/system":
			err = errors.New("its path is not /system")
		case u.Scheme == "qemu+unix" && filepath.IsAbs(u.Query().Get("socket")) && u.Host == "":
		case (u.Scheme == "qemu+tcp" || u.Scheme == "qemu+tls") && u.Hostname() != "":
		default:
			err = errors.New("write qemu+tls://HOST/system, qemu+tcp://HOST/system or " +
				"qemu+unix:///system?socket=PATH")
		}
	}
	if err != nil {
		return fault.New(fault.Invalid, "%q is not a supported address of a libvirt: %w", uri, err)
	}
	return nil
}

// DialURI connects to a daemon, maybe of another host, like Dial.
func DialURI(ctx context.Context, uri string, limit time.Duration) (*Client, error) {
	if err := CheckURI(uri); err != nil {
		return nil, err
	}
	u, err := url.Parse(uri)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err)
	}
	if u.Scheme == "qemu+unix" {
		return Dial(ctx, u.Query().Get("socket"), "qemu:///system", limit)
	}
	port := portTCP
	if u.Scheme == "qemu+tls" {
		port = portTLS
	}
	address := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	ctxDial, cancel := context.WithTimeout(ctx, cmp.Or(limit, callTime))
	defer cancel()
	var expires time.Time
	conn, err := new(net.Dialer).DialContext(ctxDial, "tcp", address)
	if err == nil && u.Scheme == "qemu+tls" {
		conn, expires, err = startTLS(ctxDial, conn, u)
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the libvirt at %s cannot be reached: %w; moves between hosts need the "+
			"name of that host, and the port and certificates of its libvirt, see \"Live migration of libvirt guests\" in "+
			"the guide", uri, err)
	}
	c, err := newClient(ctx, conn, "qemu:///system", limit)
	if err == nil {
		c.Expires = expires
	}
	return c, err
}

// startTLS authenticates both sides, and returns when the first of their certificates ends. The daemon sends one byte
// after the handshake: 1 if it accepts the client's certificate.
func startTLS(ctx context.Context, conn net.Conn, u *url.URL) (_ net.Conn, expires time.Time, err error) {
	encrypted, own, err := handshake(ctx, conn, u)
	if err != nil {
		return nil, expires, errors.Join(err, conn.Close())
	}
	expires = encrypted.ConnectionState().PeerCertificates[0].NotAfter
	if own.NotAfter.Before(expires) {
		expires = own.NotAfter
	}
	accepted := make([]byte, 1)
	if deadline, has := ctx.Deadline(); has {
		err = encrypted.SetReadDeadline(deadline)
	}
	if err == nil {
		_, err = io.ReadFull(encrypted, accepted)
	}
	if err == nil && accepted[0] != 1 {
		err = fmt.Errorf("the daemon refuses the certificate of this host")
	}
	if err == nil {
		err = encrypted.SetReadDeadline(time.Time{})
	}
	if err != nil {
		return nil, expires, errors.Join(err, conn.Close())
	}
	return encrypted, expires, nil
}

// handshake returns the encrypted connection, and the certificate of this side.
func handshake(ctx context.Context, conn net.Conn, u *url.URL) (*tls.Conn, *x509.Certificate, error) {
	ca, cert, key := pkiCA, pkiClient, pkiKey
	if dir := u.Query().Get("pkipath"); dir != "" {
		ca, cert, key = filepath.Join(dir, "cacert.pem"), filepath.Join(dir, "clientcert.pem"),
			filepath.Join(dir, "clientkey.pem")
	}
	trusted, err := os.ReadFile(ca)
	if err != nil {
		return nil, nil, err
	}
	own, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(trusted) {
		return nil, nil, fmt.Errorf("%s has no certificate", ca)
	}
	encrypted := tls.Client(conn, &tls.Config{ServerName: u.Hostname(), RootCAs: roots,
		Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12})
	return encrypted, own.Leaf, encrypted.HandshakeContext(ctx)
}

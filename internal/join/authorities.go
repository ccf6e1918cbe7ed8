package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/openberth/berth/datafile"
	"github.com/openberth/berth/fault"
)

// The authorities of the hosts of a cloud. A certificate of libvirt's authority gives control of all guests of a host,
// so libvirt has one of its own. That of QEMU is another one, because QEMU's user, which a guest may have taken over,
// can read the key of QEMU's certificate.
const (
	ForLibvirt = "libvirt" // connections between agents and libvirt
	ForQEMU    = "qemu"    // the memory and the disk of a guest during a live migration
)

// purposes are the authorities that a cloud has.
var purposes = []string{ForLibvirt, ForQEMU}

// How long the authorities and the certificates of hosts are valid. libvirt does not start with a certificate that has
// expired, so it is long.
const (
	authorityTime   = 20 * 365 * 24 * time.Hour
	certificateTime = 10 * 365 * 24 * time.Hour
)

// Authorities are the certificate authorities of the hosts of a cloud, in the state directory of the cloud.
type Authorities struct{ Dir string }

// Requests are certificate requests (PKCS#10, DER) by the authority, with the names and addresses of one host.
type Requests map[string][]byte

// Certificates are certificates of one host by the authority.
type Certificates map[string]Certificate

// Certificate is a certificate and that of its authority, in PEM.
type Certificate struct {
	CA          string `json:"ca"`
	Certificate string `json:"certificate"`
}

func (a Authorities) path(purpose, kind string) string {
	return filepath.Join(a.Dir, "hosts-"+purpose+"-ca."+kind)
}

// Exist reports whether the cloud has authorities for its hosts.
func (a Authorities) Exist() bool {
	for _, purpose := range purposes {
		if _, err := os.Stat(a.path(purpose, "pem")); err != nil {
			return false
		}
	}
	return true
}

// Make makes the authorities that are missing. An authority has its certificate only when its key is stored.
func (a Authorities) Make(now time.Time) error {
	for _, purpose := range purposes {
		if _, err := os.Stat(a.path(purpose, "pem")); err == nil {
			continue
		}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return fault.Wrap(fault.Internal, err)
		}
		template := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: "Berth hosts, " + purpose},
			NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityTime), IsCA: true, BasicConstraintsValid: true,
			MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			return fault.Wrap(fault.Internal, err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return fault.Wrap(fault.Internal, err)
		}
		if err := datafile.Replace(a.path(purpose, "key"), inPEM("PRIVATE KEY", secret)); err != nil {
			return fault.Wrap(fault.Unavailable, err)
		}
		if err := datafile.Replace(a.path(purpose, "pem"), inPEM("CERTIFICATE", der)); err != nil {
			return fault.Wrap(fault.Unavailable, err)
		}
	}
	return nil
}

// Issue issues the certificates that a host requests. It returns fault.Invalid for a request that is not valid, and
// fault.NotFound if the cloud has no authorities.
func (a Authorities) Issue(account string, requests Requests, now time.Time) (Certificates, error) {
	out := Certificates{}
	for _, purpose := range purposes {
		wanted, err := x509.ParseCertificateRequest(requests[purpose])
		if err == nil {
			err = wanted.CheckSignature()
		}
		if err == nil {
			err = checkNames(wanted.DNSNames, wanted.IPAddresses)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "the certificate request for %s is not valid: %w", purpose, err)
		}
		if out[purpose], err = a.issue(purpose, account, wanted, now); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (a Authorities) issue(purpose, account string, wanted *x509.CertificateRequest, now time.Time) (c Certificate,
	err error) {
	authority, key, err := a.read(purpose)
	if err != nil {
		return c, err
	}
	ends := now.Add(certificateTime)
	if ends.After(authority.NotAfter) {
		ends = authority.NotAfter
	}
	template := &x509.Certificate{SerialNumber: serial(), Subject: pkix.Name{CommonName: account},
		NotBefore: now.Add(-time.Hour), NotAfter: ends, DNSNames: wanted.DNSNames, IPAddresses: wanted.IPAddresses,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, // libvirt requires both
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, wanted.PublicKey, key)
	if err != nil {
		return c, fault.New(fault.Invalid, "the certificate for %s cannot be issued: %w", purpose, err)
	}
	return Certificate{CA: string(inPEM("CERTIFICATE", authority.Raw)),
		Certificate: string(inPEM("CERTIFICATE", der))}, nil
}

// read returns the certificate and the key of an authority.
func (a Authorities) read(purpose string) (*x509.Certificate, any, error) {
	if !a.Exist() {
		return nil, nil, fault.New(fault.NotFound, "this cloud has no authority for the certificates of hosts; run `berth "+
			"init` on its first machine")
	}
	der, err := readPEM(a.path(purpose, "pem"))
	if err != nil {
		return nil, nil, err
	}
	secret, err := readPEM(a.path(purpose, "key"))
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "%s cannot be read: %w", a.path(purpose, "pem"), err)
	}
	key, err := x509.ParsePKCS8PrivateKey(secret)
	if err != nil {
		return nil, nil, fault.New(fault.Unavailable, "%s cannot be read: %w", a.path(purpose, "key"), err)
	}
	return cert, key, nil
}

// maxNames is the maximum number of names, and of addresses, of a host.
const maxNames = 8

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

// isHostName reports whether a text can be the name of a host in a certificate. The length is not part of the
// expression: one with a count is compiled in milliseconds, at each start of this program.
func isHostName(text string) bool { return len(text) <= 253 && hostName.MatchString(text) }

// checkNames returns an error for names and addresses that are not those of one machine.
func checkNames(names []string, addresses []net.IP) error {
	if len(names)+len(addresses) == 0 || len(names) > maxNames || len(addresses) > maxNames {
		return fault.New(fault.Invalid, "it has %d names and %d addresses; a host has 1 to %d", len(names), len(addresses),
			maxNames)
	}
	for _, name := range names {
		if !isHostName(name) {
			return fault.New(fault.Invalid, "%q is not the name of a host", name)
		}
	}
	for _, ip := range addresses {
		if ip.IsUnspecified() || ip.IsMulticast() {
			return fault.New(fault.Invalid, "%s is not the address of a host", ip)
		}
	}
	return nil
}

// NewRequests makes a key for each authority, and returns the requests for their certificates and the keys (PKCS#8, in
// PEM). names without the form of a host name are left out.
func NewRequests(names []string, address net.IP) (Requests, map[string][]byte, error) {
	template := &x509.CertificateRequest{IPAddresses: []net.IP{address}}
	for _, name := range names {
		if isHostName(name) {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	requests, keys := Requests{}, map[string][]byte{}
	for _, purpose := range purposes {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, nil, fault.Wrap(fault.Internal, err)
		}
		if requests[purpose], err = x509.CreateCertificateRequest(rand.Reader, template, key); err != nil {
			return nil, nil, fault.Wrap(fault.Invalid, err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return nil, nil, fault.Wrap(fault.Internal, err)
		}
		keys[purpose] = inPEM("PRIVATE KEY", secret)
	}
	return requests, keys, nil
}

func serial() *big.Int {
	n, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // crypto/rand ends the program instead of failing
	return n
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// readPEM returns the first block of a file.
func readPEM(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fault.New(fault.Unavailable, "%s is not PEM; restore it", path)
	}
	return block.Bytes, nil
}

package servers

import (
	"crypto/rand"
	"math/big"
	"net/netip"
	"regexp"
	"strings"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/server/request"
)

// ReadDescribed reads the keys that creation, update and rebuild have in common: accessIPv4, accessIPv6 and
// OS-DCF:diskConfig.
func ReadDescribed(o *edge.Object) (d lifecycle.DetailsChange) {
	d.AccessIPv4 = readAccess(o, "accessIPv4", netip.Addr.Is4)
	d.AccessIPv6 = readAccess(o, "accessIPv6", netip.Addr.Is6)
	d.AutoDisk = ReadDiskConfig(o)
	return d
}

// readAccess reads an address at which the user reaches the server; nil if it is not given. An empty text removes it.
func readAccess(o *edge.Object, key string, valid func(netip.Addr) bool) *string {
	text := ""
	if !o.Text(key, &text, 45) {
		return nil
	}
	if at, err := netip.ParseAddr(text); text != "" && (err != nil || !valid(at) || at.Zone() != "") {
		o.Invalid(key, "%q is not a valid address", edge.Clip(text))
	}
	return &text
}

// ReadDiskConfig reads OS-DCF:diskConfig: whether it is AUTO; nil if it is not given. It is shown only: a guest
// resizes its file systems itself.
func ReadDiskConfig(o *edge.Object) *bool {
	word := ""
	if !o.Word("OS-DCF:diskConfig", &word, "AUTO", "MANUAL") {
		return nil
	}
	auto := word == "AUTO"
	return &auto
}

// diskConfig returns the value of OS-DCF:diskConfig.
func diskConfig(auto bool) string {
	if auto {
		return "AUTO"
	}
	return "MANUAL"
}

// The host names that users choose: one label, and since 2.94 several.
var (
	hostLabel = regexp.MustCompile(`^[a-zA-Z0-9]+[a-zA-Z0-9-]*[a-zA-Z0-9]+$`)
	hostFQDN  = regexp.MustCompile(`^[a-zA-Z0-9._-]*$`)
)

// ReadHostname reads hostname (2.90); given is false without it.
func ReadHostname(c *request.Call, o *edge.Object, into *string) (given bool) {
	if !c.Has(compute.Hostname) {
		return false
	}
	most, valid := 63, hostLabel
	if c.Has(compute.HostnameFQDN) {
		most, valid = 255, hostFQDN
	}
	text := ""
	if !o.Text("hostname", &text, most) {
		return false
	}
	if text == "" || !valid.MatchString(text) {
		o.Invalid("hostname", "%q is not a valid host name", edge.Clip(text))
	}
	*into = text
	return true
}

// passwordLength is the length of a generated password, in characters.
const passwordLength = 12

// passwordLetters are the classes of characters of a generated password, without those that are easily confused. It
// has at least one of each.
var passwordLetters = []string{"abcdefghijkmnopqrstuvwxyz", "ABCDEFGHJKLMNPQRSTUVWXYZ", "23456789"}

// MaxPassword is the largest number of characters of adminPass, which the records of all servers of a request have.
const MaxPassword = 255

// ReadPassword reads adminPass, and generates one if it is not given.
func ReadPassword(o *edge.Object) string {
	text := ""
	if o.Text("adminPass", &text, MaxPassword) && text != "" {
		return text
	}
	return generatePassword()
}

// generatePassword returns a random password.
func generatePassword() string {
	classes := append([]string{}, passwordLetters...)
	for len(classes) < passwordLength {
		classes = append(classes, strings.Join(passwordLetters, ""))
	}
	text := make([]byte, passwordLength)
	for i := range text {
		at := below(len(classes))
		letters := classes[at]
		classes = append(classes[:at], classes[at+1:]...)
		text[i] = letters[below(len(letters))]
	}
	return string(text)
}

// below returns a random number from 0 to n-1. The source of the system does not fail.
func below(n int) int {
	k, err := rand.Int(rand.Reader, big.NewInt(int64(n)))
	if err != nil {
		panic(err)
	}
	return int(k.Int64())
}

// ShownPassword returns the password as answers show it: none with [api] enable_instance_password = false.
func ShownPassword(s *Handlers, password string) string {
	if s.HidePasswords {
		return ""
	}
	return password
}

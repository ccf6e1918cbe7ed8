package network

import (
	"regexp"
	"strings"
)

// label is a part of a name (RFC 1123, section 2.1).
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// maxName is the length of a name without the dot at its end.
const maxName = 253

// MaxDNSDomain is the number of characters of the longest domain of a network: it leaves room for the name of a server
// and a dot in the 253 characters of a name in DNS.
const MaxDNSDomain = 253 - 64

// WhyNotDNS returns why a name in lower case, without a dot at its end, is not valid in DNS; empty: it is.
func WhyNotDNS(name string) string {
	if len(name) > maxName {
		return "with its domain it has more than 253 characters"
	}
	for _, part := range strings.Split(name, ".") {
		if !label.MatchString(part) {
			return "the part '" + part + "' must have 1 to 63 of the characters a-z, 0-9 and -, and no - at its ends"
		}
	}
	return ""
}

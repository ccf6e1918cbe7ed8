package placement

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"github.com/openberth/berth/fault"
)

// Version is a microversion of the Placement API: 39 means 1.39. There is one major version, 1.
type Version int

// The oldest and the newest microversion that Berth speaks. A request that names none gets Oldest.
const (
	Oldest Version = 0
	Latest Version = 39
)

// VersionHeader carries the microversion, both in requests and in answers.
const VersionHeader = "Openstack-Api-Version"

// CodeVersion is the code of ParseVersion's fault when the text is a version, but none that Berth speaks.
const CodeVersion = "unacceptable version"

// service is the name of this API in VersionHeader, which may list several services.
const service = "placement"

// String prints the version as it is written in headers and documents: 1.39.
func (v Version) String() string { return "1." + strconv.Itoa(int(v)) }

// Header is the value of VersionHeader that asks for this version.
func (v Version) Header() string { return service + " " + v.String() }

// ParseVersion reads `1.39` or `latest`. The fault for a version that Berth does not speak has the code CodeVersion (the
// API answers 406); that for any other text has none (400). Both are of kind Invalid.
func ParseVersion(text string) (Version, error) {
	const op = "placement.ParseVersion"
	if text == "latest" {
		return Latest, nil
	}
	left, right, _ := strings.Cut(text, ".")
	major, ok := wholeNumber(left)
	minor, alsoOK := wholeNumber(right)
	if !ok || !alsoOK {
		return 0, fault.New(fault.Invalid, op, "Invalid microversion: invalid version string: %s", text)
	}
	if v := Version(minor); major == 1 && v >= Oldest && v <= Latest {
		return v, nil
	}
	return 0, fault.New(fault.Invalid, op, "Invalid microversion: Unacceptable version header: %s", text).WithCode(CodeVersion)
}

// RequestVersion reads the microversion of a request. Of several values for placement the last one counts; values for
// other services, and a value without a version, are passed over; when nothing is left the version is Oldest.
func RequestVersion(h http.Header) (Version, error) {
	found := ""
	for _, line := range h.Values(VersionHeader) {
		for item := range strings.SplitSeq(line, ",") {
			item = strings.TrimSpace(item)
			if at := strings.IndexFunc(item, unicode.IsSpace); at > 0 && strings.EqualFold(item[:at], service) {
				found = strings.TrimSpace(item[at:])
			}
		}
	}
	if found == "" {
		return Oldest, nil
	}
	return ParseVersion(found)
}

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

// The oldest and the newest microversion that Berth supports. A request without a microversion gets Oldest.
const (
	Oldest Version = 0
	Latest Version = 39
)

// VersionHeader is the header with the microversion, in requests and in answers.
const VersionHeader = "Openstack-Api-Version"

// CodeVersion is the code of ParseVersion's fault for a version that Berth does not support.
const CodeVersion = "unacceptable version"

// service is the name of this API in VersionHeader, which may list several services.
const service = "placement"

// String returns the version as in headers and documents: 1.39.
func (v Version) String() string { return "1." + strconv.Itoa(int(v)) }

// Header returns the value of VersionHeader that requests this version.
func (v Version) Header() string { return service + " " + v.String() }

// ParseVersion parses `1.39` or `latest`. Errors are fault.Invalid: with the code CodeVersion for a version that Berth
// does not support (the API answers 406), without a code for any other text (400).
func ParseVersion(text string) (Version, error) {
	if text == "latest" {
		return Latest, nil
	}
	left, right, _ := strings.Cut(text, ".")
	major, ok := wholeNumber(left)
	minor, alsoOK := wholeNumber(right)
	if !ok || !alsoOK {
		return 0, fault.New(fault.Invalid, "Invalid microversion: invalid version string: %s", text)
	}
	if v := Version(minor); major == 1 && v >= Oldest && v <= Latest {
		return v, nil
	}
	return 0, fault.New(fault.Invalid, "Invalid microversion: Unacceptable version header: %s", text).
		WithCode(CodeVersion)
}

// RequestVersion returns the microversion of a request. Of several values for placement the last one is effective.
// Values for other services and values without a version are ignored. The default is Oldest.
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

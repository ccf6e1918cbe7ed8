package placement

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

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

// service is the name of this API in VersionHeader, which may list several services.
const service = "placement"

// String prints the version as it is written in headers and documents: 1.39.
func (v Version) String() string { return "1." + strconv.Itoa(int(v)) }

// Header is the value of VersionHeader that asks for this version.
func (v Version) Header() string { return service + " " + v.String() }

var versionWord = regexp.MustCompile(`^([1-9][0-9]*|0)\.([1-9][0-9]*|0)$`)

// ParseVersion reads `1.39` or `latest`. A text that is no version is fault.Invalid (the API answers it with 400); a
// version that Berth does not speak is ErrUnsupported's code (406).
func ParseVersion(text string) (Version, error) {
	const op = "placement.ParseVersion"
	text = strings.TrimSpace(text)
	if strings.EqualFold(text, "latest") {
		return Latest, nil
	}
	part := versionWord.FindStringSubmatch(text)
	if part == nil {
		return 0, fault.New(fault.Invalid, op, "invalid version string: %s", text)
	}
	minor, err := strconv.Atoi(part[2])
	if part[1] != "1" || err != nil || minor > int(Latest) {
		return 0, fault.New(fault.Invalid, op, "Unacceptable version header: %s", text).WithCode(CodeVersion)
	}
	return Version(minor), nil
}

// CodeVersion is the code of ParseVersion's fault when the text is a version, but none that Berth speaks.
const CodeVersion = "unacceptable version"

// RequestVersion reads the microversion of a request. Of several values for placement the last one counts; values for
// other services are passed over; without any the version is Oldest.
func RequestVersion(h http.Header) (Version, error) {
	found := ""
	for _, line := range h.Values(VersionHeader) {
		for item := range strings.SplitSeq(line, ",") {
			name, version, ok := strings.Cut(strings.TrimSpace(item), " ")
			if strings.EqualFold(name, service) {
				if !ok {
					return 0, fault.New(fault.Invalid, "placement.RequestVersion", "invalid version string: %s", item)
				}
				found = version
			}
		}
	}
	if found == "" {
		return Oldest, nil
	}
	v, err := ParseVersion(found)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", VersionHeader, err)
	}
	return v, nil
}

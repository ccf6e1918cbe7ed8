package request

import "github.com/openberth/berth/api/edge"

// MaxBody is the maximum size of a request body, in bytes.
const MaxBody = 4 << 20

// Style is how Neutron reads the objects of requests.
var Style = edge.Style{
	MaxBody:     MaxBody,
	MaxWord:     255,
	Null:        true,
	Decimals:    true,
	True:        []string{"true", "1"},
	False:       []string{"false", "0"},
	Code:        "HTTPBadRequest",
	NoObject:    "Unable to find '%s' in request body; send an object with this key, whose value is an object",
	Invalid:     "Invalid input for %[2]s. Reason: %[3]s.",
	Unknown:     "Attribute '%[2]s' not allowed in %[3]s of a %[1]s; leave it out",
	Unsupported: "Attribute '%[2]s' of a %[1]s is not supported: %[3]s",
	Wrong:       "'%s' is not %s",
	Length:      "it has %[1]d characters and exceeds the maximum length of %[3]d",
	NotIn:       "'%s' is not in [%s]",
	Between:     ", ",
	Text:        "a valid string",
	Whole:       "an integer from %d to %d",
	NoFlag:      "'%s' cannot be converted to boolean",
}

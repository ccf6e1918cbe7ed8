package record

import (
	"bytes"

	"github.com/openberth/berth/compute/lifecycle"
)

// hiddenMembers are the members of a server's record that no list shows. They are most of its text: the request to
// Placement, its candidates, what agents and filters have reported, and the history.
var hiddenMembers = map[string]bool{"image_snapshot": true, "resource_request": true, "pci_requests": true,
	"requested_networks": true,
	"numa_cells":         true, "choices": true, "excluded_hosts": true, "filter_failures": true, "host_search": true,
	"pci_devices":    true,
	"numa_placement": true, "leftovers": true, "last_reports": true, "before_rebuild": true, "migration": true,
	"history": true, "public_key": true, "admin_password": true}

// DecodeListed reads the record of the server with this id without hiddenMembers, as DecodeServer does.
func DecodeListed(id string, text []byte) (lifecycle.Server, error) {
	return DecodeServer(id, withoutMembers(text, hiddenMembers))
}

// withoutMembers returns the text of a JSON object without the members with these names. It is several times as fast as
// decoding them. It returns a text that is not such an object as it is; then decoding reports the error.
func withoutMembers(text []byte, names map[string]bool) []byte {
	out := append(make([]byte, 0, len(text)/2), '{')
	rest, separator := text, byte('{')
	for len(rest) > 2 && rest[0] == separator && rest[1] == '"' {
		end := bytes.IndexByte(rest[2:], '"')
		if end < 0 || end+3 >= len(rest) || rest[end+3] != ':' {
			return text
		}
		member := rest[1 : end+4+valueLength(rest[end+4:])]
		if !names[string(rest[2:end+2])] {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, member...)
		}
		rest, separator = rest[1+len(member):], ','
	}
	if string(rest) != "}" {
		return text
	}
	return append(out, '}')
}

// valueLength returns the length of the JSON value at the beginning of a text, up to the comma or the bracket after it.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case ',':
			if depth == 0 {
				return i
			}
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return len(text)
}

package store

import (
	"bytes"
	"runtime"
	"sync"

	"github.com/openberth/berth/compute/lifecycle"
)

// hiddenMembers are the members of a server's record that no list shows. They are most of its text: the request to
// Placement, its candidates, what agents and filters have reported, and the history.
var hiddenMembers = map[string]bool{"image_snapshot": true, "resource_request": true, "pci_requests": true,
	"requested_networks": true,
	"numa_cells":         true, "choices": true, "excluded_hosts": true, "filter_failures": true, "pci_devices": true,
	"numa_placement": true, "leftovers": true, "last_reports": true, "before_rebuild": true, "migration": true,
	"history": true, "public_key": true}

// decoder decodes records. The order of the result is that of the records.
type decoder func(records []textOfServer) ([]lifecycle.Server, error)

// decodeFull decodes records; it is a decoder.
func decodeFull(records []textOfServer) ([]lifecycle.Server, error) {
	list := make([]lifecycle.Server, 0, len(records))
	for _, r := range records {
		server, err := decodeServer(r.id, r.record)
		if err != nil {
			return nil, err
		}
		list = append(list, server)
	}
	return list, nil
}

// decodeListed decodes records without hiddenMembers, on all processors; it is a decoder.
func decodeListed(records []textOfServer) ([]lifecycle.Server, error) {
	const atLeast = 64 // records for one goroutine
	list := make([]lifecycle.Server, len(records))
	parts := max(1, min(runtime.GOMAXPROCS(0), len(records)/atLeast))
	failed := make([]error, parts)
	var running sync.WaitGroup
	for part := range parts {
		running.Go(func() {
			for i := part; i < len(records) && failed[part] == nil; i += parts {
				list[i], failed[part] = decodeServer(records[i].id, withoutMembers(records[i].record, hiddenMembers))
			}
		})
	}
	running.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

// withoutMembers returns the text of a JSON object without the members with these names. It is several times as fast as
// decoding them. It returns a text that is not such an object as it is; then decoding reports the error. A record
// without a version has other names and is returned as it is.
func withoutMembers(text []byte, names map[string]bool) []byte {
	rest, ok := bytes.CutPrefix(text, []byte(`{"version":`))
	if !ok {
		return text
	}
	out := append(make([]byte, 0, len(text)/2), `{"version":`...)
	size := valueLength(rest)
	out, rest = append(out, rest[:size]...), rest[size:]
	for len(rest) > 2 && rest[0] == ',' && rest[1] == '"' {
		end := bytes.IndexByte(rest[2:], '"')
		if end < 0 || end+3 >= len(rest) || rest[end+3] != ':' {
			return text
		}
		member := rest[:end+4+valueLength(rest[end+4:])]
		if !names[string(rest[2:end+2])] {
			out = append(out, member...)
		}
		rest = rest[len(member):]
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

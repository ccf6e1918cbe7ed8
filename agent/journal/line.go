package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// version is raised when an older agent could not read what is written.
const version = 1

// The kinds of entries.
const (
	kindFormat   = "format"
	kindIdentity = "identity"
	kindServer   = "server"
	kindLeft     = "left"
	kindRemoved  = "removed"
	kindMark     = "mark"
)

// entry is what one line says.
type entry struct {
	Kind     string           `json:"kind"`
	Version  int              `json:"version,omitempty"`
	Host     string           `json:"host,omitempty"`
	Provider provider.ID      `json:"provider,omitempty"`
	Server   string           `json:"server,omitempty"`
	Claims   []wireClaim      `json:"claims,omitempty"`
	Classes  []resource.Class `json:"classes,omitempty"`
	Traits   []resource.Trait `json:"traits,omitempty"`
}

type wireClaim struct {
	Request  string      `json:"request"`
	Address  wireAddress `json:"address"`
	Provider provider.ID `json:"provider,omitempty"`
	Phase    Phase       `json:"phase"`
}

// wireAddress gives an address its text form; the word itself does not serialise.
type wireAddress pci.Address

// MarshalText prints the address.
func (a wireAddress) MarshalText() ([]byte, error) { return []byte(pci.Address(a).String()), nil }

// UnmarshalText parses an address.
func (a *wireAddress) UnmarshalText(text []byte) error {
	address, err := pci.ParseAddress(string(text))
	*a = wireAddress(address)
	return err
}

func toWire(claims []Claim) []wireClaim {
	out := make([]wireClaim, len(claims))
	for i, c := range claims {
		out[i] = wireClaim{Request: c.Request, Address: wireAddress(c.Address), Provider: c.Provider, Phase: c.Phase}
	}
	return out
}

func fromWire(server string, wire []wireClaim) []Claim {
	var out []Claim
	for _, w := range wire {
		out = append(out, Claim{Server: server, Request: w.Request, Address: pci.Address(w.Address), Provider: w.Provider, Phase: w.Phase})
	}
	sortClaims(out)
	return out
}

// envelope is a line: the entry's bytes exactly as they were summed, and their sum.
type envelope struct {
	CRC   string          `json:"crc"`
	Entry json.RawMessage `json:"entry"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(data []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli)) }

// line prints the entry with its sum and a newline.
func (e entry) line() ([]byte, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "journal.line", err)
	}
	line, err := json.Marshal(envelope{CRC: checksum(raw), Entry: raw})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "journal.line", err)
	}
	return append(line, '\n'), nil
}

// encode prints the whole state and counts the lines.
func (s State) encode() (data []byte, lines int, err error) {
	entries := s.entries()
	for _, e := range entries {
		line, err := e.line()
		if err != nil {
			return nil, 0, err
		}
		data = append(data, line...)
	}
	return data, len(entries), nil
}

// parseLine reads a line without its newline. The fault is a sentence about the line alone.
func parseLine(line []byte) (entry, error) {
	const op = "journal.parseLine"
	var env envelope
	if err := json.Unmarshal(line, &env); err != nil {
		return entry{}, fault.New(fault.Internal, op, "it is no JSON: %w", err)
	}
	if sum := checksum(env.Entry); sum != env.CRC {
		return entry{}, fault.New(fault.Internal, op, "its checksum is %q, its content gives %q", env.CRC, sum)
	}
	var e entry
	if err := json.Unmarshal(env.Entry, &e); err != nil {
		return entry{}, fault.New(fault.Internal, op, "its entry is none: %w", err)
	}
	return e, nil
}

// content is what a file says.
type content struct {
	state  State
	lines  int
	exists bool
	torn   bool // the last line is not whole
}

// parse reads a file. A bad last line is torn: its write never returned. A bad line before the last was whole once,
// so it is damage, which nothing may silently pass over: a forgotten claim would give a device away twice.
func parse(path string, data []byte) (content, error) {
	const op = "journal.Open"
	c := content{state: State{}.clone(), exists: true}
	for number := 1; len(data) > 0; number++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		e, err := parseLine(line)
		switch {
		case !whole || (err != nil && len(rest) == 0):
			c.torn = true
			return c, nil
		case err != nil:
			return content{}, fault.New(fault.Internal, op,
				"%s is damaged in line %d: %s. Restore the file from a backup, or move it away: "+
					"the agent then takes the claims of the guests that run, and forgets those of guests not yet built",
				path, number, fault.TextOf(err))
		case !e.known():
			return content{}, fault.New(fault.Invalid, op,
				"%s has an entry %q of version %d in line %d, which this program does not know; use the newer one that wrote it",
				path, e.Kind, e.Version, number)
		}
		c.state.apply(e)
		c.lines++
		data = rest
	}
	return c, nil
}

// known says whether this program understands the entry.
func (e entry) known() bool {
	switch e.Kind {
	case kindFormat:
		return e.Version == version
	case kindIdentity, kindServer, kindLeft, kindRemoved, kindMark:
		return true
	}
	return false
}

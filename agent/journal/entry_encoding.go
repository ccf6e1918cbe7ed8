package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/openberth/berth/fault"
)

// envelope is a line: the bytes of the entry, and their checksum.
type envelope struct {
	CRC   string          `json:"crc"`
	Entry json.RawMessage `json:"entry"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(data []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli)) }

// encode returns the line of the entry, with its checksum and a newline.
func (e Entry) encode() ([]byte, error) {
	raw, err := json.Marshal(e)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err)
	}
	line, err := json.Marshal(envelope{CRC: checksum(raw), Entry: raw})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err)
	}
	return append(line, '\n'), nil
}

// encode returns the lines of the whole state and their number.
func (s State) encode() (data []byte, lines int, err error) {
	entries := s.entries()
	for _, e := range entries {
		line, err := e.encode()
		if err != nil {
			return nil, 0, err
		}
		data = append(data, line...)
	}
	return data, len(entries), nil
}

// parseLine parses a line without its newline. The fault describes the line alone.
func parseLine(line []byte) (Entry, error) {
	var env envelope
	if err := json.Unmarshal(line, &env); err != nil {
		return Entry{}, fault.New(fault.Internal, "it is not valid JSON: %w", err)
	}
	if sum := checksum(env.Entry); sum != env.CRC {
		return Entry{}, fault.New(fault.Internal, "its checksum is %q, its content gives %q", env.CRC, sum)
	}
	e, err := parseEntry(env.Entry)
	if err != nil {
		return Entry{}, fault.New(fault.Internal, "its entry cannot be read: %w", err)
	}
	return e, nil
}

// parseEntry reads an entry. One with unknown fields is marked as newer.
func parseEntry(text []byte) (Entry, error) {
	var e Entry
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&e) == nil {
		return e, nil
	}
	e = Entry{newer: true}
	err := json.Unmarshal(text, &e)
	return e, err
}

// content is the content of a journal file.
type content struct {
	state  State
	lines  int
	exists bool
	torn   bool // the last line is incomplete
}

// parse parses a file. A bad last line is torn: its write never returned. A bad line before the last one is damage and
// returns a fault, because the device of a lost claim could be claimed twice.
func parse(path string, data []byte) (content, error) {
	c := content{state: emptyState(), exists: true}
	for number := 1; len(data) > 0; number++ {
		line, rest, complete := bytes.Cut(data, []byte{'\n'})
		e, err := parseLine(line)
		switch {
		case !complete || (err != nil && len(rest) == 0):
			c.torn = true
			return c, nil
		case err != nil:
			return content{}, fault.New(fault.Internal,
				"%s is damaged in line %d: %s. Restore the file from a backup, or move it away: "+
					"the agent then takes the claims of the guests that run, and forgets those of guests not yet built",
				path, number, fault.TextOf(err))
		case e.Kind == kindFormat && e.Version < version:
			return content{}, fault.New(fault.Invalid,
				"cannot read %s: an earlier Berth wrote it (version %d), and this one does not read it; move it away: the "+
					"agent then takes the claims of the guests that run, and forgets those of guests not yet built",
				path, e.Version)
		case !e.known():
			return content{}, fault.New(fault.Invalid,
				"cannot read line %d of %s: a newer Berth wrote the entry %q (version %d); start that one",
				number, path, e.Kind, e.Version)
		}
		c.state.apply(e)
		c.lines++
		data = rest
	}
	return c, nil
}

// known reports whether this program supports the entry.
func (e Entry) known() bool {
	if e.newer {
		return false
	}
	switch e.Kind {
	case kindFormat:
		return e.Version == version
	case kindIdentity, kindServer, kindBuilt, kindUnbuilt, kindGone, kindRemoved, kindOwned, kindRenamed,
		kindUnrenamed, kindPosition, kindStarts, kindEnabled, kindReserved:
		return true
	case kindSpent, kindCleaned, kindDisabled, kindErrors, kindVFs:
		return e.Device != nil
	}
	return false
}

package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/openberth/berth/agent/device"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// wireClaim is a claimed device with its properties at the time of the claim. They are all that the agent has of the
// device if it vanishes.
type wireClaim struct {
	Request  string           `json:"request"`
	State    device.State     `json:"state"`
	ID       device.ID        `json:"address"`
	Vendor   string           `json:"vendor_id,omitempty"`
	Product  string           `json:"product_id,omitempty"`
	Type     pci.Type         `json:"dev_type,omitempty"`
	Code     uint32           `json:"pci_class,omitempty"` // 0 in a journal of an older agent
	Parent   *device.ID       `json:"parent,omitempty"`
	NUMANode int              `json:"numa_node"`
	Group    int              `json:"iommu_group"`
	Provider provider.ID      `json:"provider,omitempty"`
	Name     string           `json:"provider_name,omitempty"`
	Class    resource.Class   `json:"resource_class,omitempty"`
	Traits   []resource.Trait `json:"traits,omitempty"`
	Managed  pci.Flag         `json:"managed,omitempty"`
	Moves    pci.Flag         `json:"live_migratable,omitempty"`
}

// parentID returns the ID of a VF's PF; nil for any other device.
func parentID(d pci.Device) *device.ID {
	if d.Parent == nil {
		return nil
	}
	id := device.PCI(*d.Parent)
	return &id
}

func toWire(claims []device.Claim) []wireClaim {
	out := make([]wireClaim, len(claims))
	for i, c := range claims {
		d := c.Device
		out[i] = wireClaim{Request: c.Request, State: c.State,
			ID: c.ID(), Vendor: d.Vendor, Product: d.Product, Type: d.Type, Code: d.Class,
			Parent: parentID(d), NUMANode: d.NUMANode, Group: d.IOMMUGroup,
			Provider: c.Provider, Name: c.Name, Class: c.Class, Traits: c.Traits, Managed: c.Managed,
			Moves: c.LiveMigratable}
	}
	return out
}

func fromWire(server string, wire []wireClaim) []device.Claim {
	var out []device.Claim
	for _, w := range wire {
		d := pci.Device{Address: w.ID.Address(), Vendor: w.Vendor, Product: w.Product, Type: w.Type,
			Class:    w.Code,
			NUMANode: w.NUMANode, IOMMUGroup: w.Group}
		if w.Parent != nil {
			pf := w.Parent.Address()
			d.Parent = &pf
		}
		offer := device.Offer{Device: d, Provider: w.Provider, Name: w.Name, Class: w.Class, Traits: w.Traits,
			Managed: w.Managed, LiveMigratable: w.Moves}
		out = append(out, device.Claim{Offer: offer, Holder: resource.ConsumerID(server), Request: w.Request,
			State: w.State})
	}
	sortClaims(out)
	return out
}

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
		return nil, fault.Wrap(fault.Internal, "journal.line", err)
	}
	line, err := json.Marshal(envelope{CRC: checksum(raw), Entry: raw})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, "journal.line", err)
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
	const op = "journal.parseLine"
	var env envelope
	if err := json.Unmarshal(line, &env); err != nil {
		return Entry{}, fault.New(fault.Internal, op, "it is not valid JSON: %w", err)
	}
	if sum := checksum(env.Entry); sum != env.CRC {
		return Entry{}, fault.New(fault.Internal, op, "its checksum is %q, its content gives %q", env.CRC, sum)
	}
	e, err := parseEntry(env.Entry)
	if err != nil {
		return Entry{}, fault.New(fault.Internal, op, "its entry cannot be read: %w", err)
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
	const op = "journal.Open"
	c := content{state: State{}.clone(), exists: true}
	for number := 1; len(data) > 0; number++ {
		line, rest, complete := bytes.Cut(data, []byte{'\n'})
		e, err := parseLine(line)
		switch {
		case !complete || (err != nil && len(rest) == 0):
			c.torn = true
			return c, nil
		case err != nil:
			return content{}, fault.New(fault.Internal, op,
				"%s is damaged in line %d: %s. Restore the file from a backup, or move it away: "+
					"the agent then takes the claims of the guests that run, and forgets those of guests not yet built",
				path, number, fault.TextOf(err))
		case !e.known():
			return content{}, fault.New(fault.Invalid, op,
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
	case kindIdentity, kindServer, kindGone, kindRemoved, kindOwned, kindRenamed, kindUnrenamed, kindPosition,
		kindStarts:
		return true
	case kindSpent, kindCleaned:
		return e.Device != nil
	}
	return false
}

package view

import (
	"regexp"
	"strings"

	"github.com/openberth/berth/resource"
)

// Segment is a part of a sentence.
type Segment struct {
	Text   string
	Code   bool   // it is a command
	Server string // id of the server that Text names; empty: it names none
}

// HostName is the name of a host. Without a link the name is the id of a root provider.
type HostName struct {
	Name string
	Link bool // the console has a page of the host
}

// uuids matches ids in sentences.
var uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// Sentence divides a sentence of an API: commands are between backticks, and the ids of servers of the cloud become
// their names.
func (c *Cloud) Sentence(text string) (list []Segment) {
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			list = append(list, Segment{Text: part, Code: true})
			continue
		}
		for part != "" {
			at := uuids.FindStringIndex(part)
			if at == nil {
				list = append(list, Segment{Text: part})
				break
			}
			if at[0] > 0 {
				list = append(list, Segment{Text: part[:at[0]]})
			}
			list = append(list, c.named(part[at[0]:at[1]]))
			part = part[at[1]:]
		}
	}
	return list
}

// Named returns the segment of an id; see named.
func (c *Cloud) Named(id string) Segment { return c.named(id) }

// named returns the segment of an id: the name of a server or a provider that has it, or the id.
func (c *Cloud) named(id string) Segment {
	if c == nil {
		return Segment{Text: id}
	}
	if s := c.Fleet.Server[resource.ConsumerID(id)]; s != nil {
		name := s.Name
		if name == "" {
			name = id
		}
		return Segment{Text: name, Server: id}
	}
	if p := c.Fleet.Provider[resource.ProviderID(id)]; p != nil {
		return Segment{Text: p.Name}
	}
	return Segment{Text: id}
}

// Progress returns how much of a cloud is read, for people.
func Progress(done, of int) string {
	if of == 0 {
		return "The first requests are sent."
	}
	return Number(done) + " of " + Number(of) + " provider trees are read."
}

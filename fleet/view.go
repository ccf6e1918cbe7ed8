package fleet

import (
	"cmp"

	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// View is a snapshot with its objects by id.
type View struct {
	*Snapshot
	Provider  map[provider.ID]*Provider
	Root      map[string]*Provider // root providers by name
	Server    map[resource.ConsumerID]*Server
	Migration map[resource.ConsumerID]*Migration // by the id with which it is a consumer
	Moves     map[string][]*Migration            // in progress, by server
	Held      map[resource.ConsumerID]resource.Allocation
}

// NewView returns the view of a snapshot, which must not change any more.
func NewView(s *Snapshot) *View {
	v := &View{Snapshot: s, Provider: make(map[provider.ID]*Provider, len(s.Providers)), Root: map[string]*Provider{},
		Server:    make(map[resource.ConsumerID]*Server, len(s.Servers)),
		Migration: make(map[resource.ConsumerID]*Migration, len(s.Migrations)), Moves: map[string][]*Migration{},
		Held: map[resource.ConsumerID]resource.Allocation{}}
	for i := range s.Providers {
		p := &s.Providers[i]
		v.Provider[p.ID] = p
		if p.Parent == "" {
			v.Root[p.Name] = p
		}
		for consumer, amounts := range p.Held {
			if v.Held[consumer] == nil {
				v.Held[consumer] = resource.Allocation{}
			}
			v.Held[consumer][p.ID] = amounts
		}
	}
	for i := range s.Servers {
		v.Server[resource.ConsumerID(s.Servers[i].ID)] = &s.Servers[i]
	}
	for i := range s.Migrations {
		m := &s.Migrations[i]
		if m.UUID != "" {
			v.Migration[resource.ConsumerID(m.UUID)] = m
		}
		if m.InProgress() {
			v.Moves[m.Server] = append(v.Moves[m.Server], m)
		}
	}
	return v
}

// HostOf returns the name of the root provider above a provider.
func (v *View) HostOf(p *Provider) string {
	if root := v.Provider[p.Root]; root != nil {
		return root.Name
	}
	return ""
}

// Holder names a consumer: the server with its project and flavor, or the migration with its server.
type Holder struct {
	Consumer resource.ConsumerID `json:"consumer"`
	Amount   int                 `json:"amount"`
	Server   string              `json:"server,omitempty"` // name; empty: compute does not know the consumer
	Project  string              `json:"project,omitempty"`
	Flavor   string              `json:"flavor,omitempty"`
	Move     string              `json:"move,omitempty"` // the kind of the migration that holds it
}

// String returns the holder for a table.
func (h Holder) String() string {
	switch {
	case h.Move != "":
		return h.Move + " of " + cmp.Or(h.Server, "a deleted server")
	case h.Server != "":
		return h.Server
	}
	return "unknown consumer " + string(h.Consumer)
}

// Holder returns what compute has of a consumer.
func (v *View) Holder(consumer resource.ConsumerID, amount int) Holder {
	h := Holder{Consumer: consumer, Amount: amount}
	server := v.Server[consumer]
	if m := v.Migration[consumer]; server == nil && m != nil {
		h.Move = cmp.Or(m.Kind, "migration")
		server = v.Server[resource.ConsumerID(m.Server)]
	}
	if server != nil {
		h.Server, h.Project, h.Flavor = cmp.Or(server.Name, server.ID), server.Project, server.Flavor.Name
	}
	return h
}

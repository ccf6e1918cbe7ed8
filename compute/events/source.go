// Package events finds the changes of servers, hosts and devices, for clients that watch: GET /berth/v1/events of
// compute. It is the source of an eventstream.Feed.
package events

import (
	"context"
	"slices"
	"time"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/condition"
)

// The kinds of objects.
const (
	Server = "server"
	Host   = "host"
	Device = "device" // its id is the name of the host, a slash and the address
)

// Kinds lists the kinds of objects.
func Kinds() []string { return []string{Server, Host, Device} }

// foreignAfter is the time after which the database is read although this process has written nothing: another one may
// have, and a silent agent writes nothing either.
const foreignAfter = time.Second

// Store is what a Source reads; *store.Store implements it.
type Store interface {
	Writes() int64
	Versions(ctx context.Context) (store.Versions, error)
	ReadServers(ctx context.Context, ids []string) ([]lifecycle.Server, error)
	ReadReports(ctx context.Context, names []string) ([]schedule.Host, error)
}

// Observed is what compute itself knows of a host that has reported.
type Observed struct {
	Silent     bool // its agent is silent, or cannot report the host
	Behind     bool // its agent does not follow the assignments
	Conditions []condition.Condition
}

// Source finds the changes of compute. It compares the versions of all records with those that it has read, so it
// finds the changes of every process. It implements eventstream.Source.
type Source struct {
	store   Store
	observe func(host string) Observed
	now     func() time.Time

	// used between Begin and End, by one goroutine
	writes   int64     // of the store when the versions were read
	read     time.Time // when that was
	servers  map[string]store.ServerVersion
	hosts    map[string]hostState
	disabled map[string][]store.DisabledDevice
}

// hostState is what was read of a host.
type hostState struct {
	doc     hostDoc                  // as it was returned, without what is observed
	devices map[eventstream.Key]bool // that it has
}

// NewSource returns a Source. observe returns what compute knows of a host.
func NewSource(s Store, observe func(host string) Observed) *Source {
	return &Source{store: s, observe: observe, now: time.Now}
}

// Begin implements eventstream.Source.
func (s *Source) Begin() {
	s.writes, s.read = -1, time.Time{}
	s.servers, s.hosts = map[string]store.ServerVersion{}, map[string]hostState{}
	s.disabled = map[string][]store.DisabledDevice{}
}

// End implements eventstream.Source.
func (s *Source) End() { s.servers, s.hosts, s.disabled = nil, nil, nil }

// Changes implements eventstream.Source.
func (s *Source) Changes(ctx context.Context) (map[eventstream.Key]*eventstream.Object, error) {
	writes, now := s.store.Writes(), s.now() // before reading, so that no write is missed
	if writes == s.writes && now.Sub(s.read) < foreignAfter && !now.Before(s.read) {
		return nil, nil
	}
	versions, err := s.store.Versions(ctx)
	if err != nil {
		return nil, err
	}
	out := map[eventstream.Key]*eventstream.Object{}
	if err := s.addServers(ctx, versions, out); err != nil {
		return nil, err
	}
	disabled := versions.DisabledAt(now)
	hosts, err := s.readHosts(ctx, versions, disabled, out)
	if err != nil {
		return nil, err
	}
	s.addHosts(hosts, versions, out)
	s.writes, s.read, s.servers, s.hosts, s.disabled = writes, now, versions.Servers, hosts, disabled
	return out, nil
}

// addServers adds the servers whose versions are not those that were read before.
func (s *Source) addServers(ctx context.Context, versions store.Versions,
	out map[eventstream.Key]*eventstream.Object) error {
	var changed []string
	for id, version := range versions.Servers {
		if known, ok := s.servers[id]; !ok || known != version {
			changed = append(changed, id)
		}
	}
	for id := range s.servers {
		if _, still := versions.Servers[id]; !still {
			out[eventstream.Key{Kind: Server, ID: id}] = nil
		}
	}
	slices.Sort(changed)
	for some := range slices.Chunk(changed, store.MaxRead) {
		list, err := s.store.ReadServers(ctx, some)
		if err != nil {
			return err
		}
		for _, id := range some {
			out[eventstream.Key{Kind: Server, ID: id}] = nil // unless it is read: it may have been purged meanwhile
		}
		for _, server := range list {
			if server.Ended.IsZero() {
				out[eventstream.Key{Kind: Server, ID: server.ID}] = serverObject(server)
			}
		}
	}
	return nil
}

// readHosts returns the hosts that have reported, and adds the devices of those that have changed.
func (s *Source) readHosts(ctx context.Context, versions store.Versions, disabled map[string][]store.DisabledDevice,
	out map[eventstream.Key]*eventstream.Object) (map[string]hostState, error) {
	hosts := map[string]hostState{}
	var changed []string
	for name, reports := range versions.Hosts {
		known, ok := s.hosts[name]
		if ok && known.doc.Reports == reports && slices.Equal(s.disabled[name], disabled[name]) {
			hosts[name] = known
		} else {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	for some := range slices.Chunk(changed, store.MaxRead) {
		list, err := s.store.ReadReports(ctx, some)
		if err != nil {
			return nil, err
		}
		for _, h := range list {
			for _, d := range disabled[h.Name] {
				h = h.WithDisabled(d.Disablement)
			}
			state := hostState{hostDocOf(h, versions.Hosts[h.Name]), map[eventstream.Key]bool{}}
			for _, d := range h.Devices {
				key, object := deviceObject(h.Name, d)
				out[key], state.devices[key] = object, true
			}
			hosts[h.Name] = state
		}
	}
	for name, known := range s.hosts {
		for key := range known.devices {
			if !hosts[name].devices[key] {
				out[key] = nil
			}
		}
	}
	return hosts, nil
}

// addHosts adds all hosts: what compute observes of them changes without a version.
func (s *Source) addHosts(hosts map[string]hostState, versions store.Versions,
	out map[eventstream.Key]*eventstream.Object) {
	for name := range s.hosts {
		if _, still := hosts[name]; !still {
			out[eventstream.Key{Kind: Host, ID: name}] = nil
		}
	}
	for name, state := range hosts {
		seen := s.observe(name)
		doc := state.doc
		doc.ForcedDown = versions.Dead[name]
		if reason, is := versions.Disabled[name]; is {
			doc.Status, doc.DisabledReason = "disabled", reason
		}
		if doc.ForcedDown || seen.Silent || doc.Down != "" {
			doc.State = "down"
		}
		doc.NotFollowing = seen.Behind
		doc.Conditions = slices.Concat(doc.Conditions, seen.Conditions)
		out[eventstream.Key{Kind: Host, ID: name}] = &eventstream.Object{Host: name, Data: doc}
	}
}

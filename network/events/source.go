// Package events finds the changes of networks and ports, for clients that watch: GET /berth/v1/events of the network
// service. It is the source of an eventstream.Feed.
package events

import (
	"context"
	"slices"

	"github.com/openberth/berth/api/eventstream"
	"github.com/openberth/berth/network/store"
)

// The kinds of objects.
const (
	Network = "network"
	Port    = "port"
)

// Kinds lists the kinds of objects.
func Kinds() []string { return []string{Network, Port} }

// maxRead is the largest number of objects that are read at once.
const maxRead = 500

// Source finds the changes of the network service. Each change of any process increments the revision of the database;
// then the Source compares the revisions of all networks and ports with those that it has read. It implements
// eventstream.Source.
type Source struct {
	store *store.Store

	// used between Begin and End, by one goroutine
	revision int64 // of the database
	known    map[eventstream.Key]int64
}

// NewSource returns a Source.
func NewSource(s *store.Store) *Source { return &Source{store: s} }

// Begin implements eventstream.Source.
func (s *Source) Begin() { s.revision, s.known = -1, map[eventstream.Key]int64{} }

// End implements eventstream.Source.
func (s *Source) End() { s.known = nil }

// Changes implements eventstream.Source.
func (s *Source) Changes(ctx context.Context) (objects map[eventstream.Key]*eventstream.Object, err error) {
	var revision int64
	var present map[eventstream.Key]int64
	err = s.store.Read(ctx, func(tx *store.Tx) error {
		if revision, err = tx.Newest(ctx); err != nil || revision == s.revision {
			return err
		}
		objects, present = map[eventstream.Key]*eventstream.Object{}, map[eventstream.Key]int64{}
		if err := add(ctx, tx, s.known, Network, networkObject, present, objects); err != nil {
			return err
		}
		return add(ctx, tx, s.known, Port, portObject, present, objects)
	})
	if err != nil || present == nil {
		return nil, err
	}
	for key := range s.known {
		if _, still := present[key]; !still {
			objects[key] = nil
		}
	}
	s.revision, s.known = revision, present
	return objects, nil
}

// add adds the revisions of all objects of a kind to present, and the objects with another revision than in known to
// objects.
func add[T any, P store.Pointer[T]](ctx context.Context, tx *store.Tx, known map[eventstream.Key]int64, kind string,
	object func(T) *eventstream.Object, present map[eventstream.Key]int64,
	objects map[eventstream.Key]*eventstream.Object) error {
	revisions, err := store.Revisions[T, P](ctx, tx)
	if err != nil {
		return err
	}
	var changed []string
	for id, revision := range revisions {
		key := eventstream.Key{Kind: kind, ID: id}
		present[key] = revision
		if known[key] != revision {
			changed = append(changed, id)
		}
	}
	slices.Sort(changed)
	for some := range slices.Chunk(changed, maxRead) {
		list, err := store.List[T, P](ctx, tx, store.Filter{IDs: some})
		if err != nil {
			return err
		}
		for _, o := range list {
			objects[eventstream.Key{Kind: kind, ID: P(&o).Common().ID}] = object(o)
		}
	}
	return nil
}

// The JSON documents of the objects, with the names of the Networking API.
type (
	networkDoc struct {
		ID       string `json:"id"`
		Name     string `json:"name"`
		Project  string `json:"project_id"`
		AdminUp  bool   `json:"admin_state_up"`
		Shared   bool   `json:"shared"`
		External bool   `json:"router:external"`
		MTU      int    `json:"mtu"`
		Policy   string `json:"qos_policy_id,omitempty"`
	}
	// adminNetworkDoc is a network for administrators.
	adminNetworkDoc struct {
		networkDoc
		Segments []segmentDoc `json:"segments"`
	}
	segmentDoc struct {
		Type            string `json:"provider:network_type"`
		PhysicalNetwork string `json:"provider:physical_network,omitempty"`
		ID              int    `json:"provider:segmentation_id,omitempty"`
	}
	portDoc struct {
		ID       string       `json:"id"`
		Name     string       `json:"name"`
		Project  string       `json:"project_id"`
		Network  string       `json:"network_id"`
		Device   string       `json:"device_id"`
		Owner    string       `json:"device_owner"`
		Status   string       `json:"status"`
		AdminUp  bool         `json:"admin_state_up"`
		MAC      string       `json:"mac_address"`
		FixedIPs []fixedIPDoc `json:"fixed_ips"`
		VNIC     string       `json:"binding:vnic_type"`
		Policy   string       `json:"qos_policy_id,omitempty"`
	}
	// adminPortDoc is a port for administrators.
	adminPortDoc struct {
		portDoc
		Host string `json:"binding:host_id"`
		VIF  string `json:"binding:vif_type"`
		// Inactive are the hosts to which its server migrates, or from which it has migrated.
		Inactive []string `json:"inactive_bindings,omitempty"`
	}
	fixedIPDoc struct {
		Subnet  string `json:"subnet_id"`
		Address string `json:"ip_address"`
	}
)

// networkObject returns a network. Callers of its project do not see its segments.
func networkObject(n store.Network) *eventstream.Object {
	doc := networkDoc{ID: n.ID, Name: n.Name, Project: n.Project, AdminUp: n.AdminUp, Shared: n.Shared,
		External: n.External, MTU: n.MTU, Policy: n.Policy}
	all := adminNetworkDoc{networkDoc: doc, Segments: []segmentDoc{}}
	for _, s := range n.Segments {
		all.Segments = append(all.Segments, segmentDoc{s.Type, s.PhysicalNetwork, s.ID})
	}
	return &eventstream.Object{Project: n.Project, Data: all, Own: doc}
}

// portObject returns a port. Callers of its project do not see where it is bound.
func portObject(p store.Port) *eventstream.Object {
	doc := portDoc{ID: p.ID, Name: p.Name, Project: p.Project, Network: p.Network, Device: p.Device, Owner: p.Owner,
		Status: p.Status, AdminUp: p.AdminUp, MAC: p.MAC, FixedIPs: []fixedIPDoc{}, VNIC: p.Binding.VNIC, Policy: p.Policy}
	for _, ip := range p.FixedIPs {
		doc.FixedIPs = append(doc.FixedIPs, fixedIPDoc(ip))
	}
	all := adminPortDoc{portDoc: doc, Host: p.Binding.Host, VIF: p.Binding.VIF}
	for _, b := range p.Inactive {
		all.Inactive = append(all.Inactive, b.Host)
	}
	return &eventstream.Object{Host: p.Binding.Host, Project: p.Project, Data: all, Own: doc}
}

package resources

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/network/address"
	"github.com/openberth/berth/network/server/request"
	"github.com/openberth/berth/securitygroup"
)

// decisionRoutes returns the path that explains what security groups decide.
func (s groups) decisionRoutes() []edge.Route[*request.Call] {
	return []edge.Route[*request.Call]{{Path: "/berth/v1/ports/{id}/packet-decision",
		Methods: request.Methods{http.MethodGet: {Handle: s.explain}}}}
}

// explain is GET /berth/v1/ports/{id}/packet-decision: whether a packet from or to an address passes, and why.
func (s groups) explain(c *request.Call) error {
	id := c.R.PathValue("id")
	if _, err := s.ports().Named().Read(c, id); err != nil {
		return err
	}
	p, err := packetOf(c.R.URL.Query())
	if err != nil {
		return err
	}
	d, err := s.operations().ExplainPacket(c.R.Context(), id, p)
	if err != nil {
		return err
	}
	return c.WriteJSON(http.StatusOK, d)
}

// packetOf reads a packet from the query: from or to is the other end; address is that of the port.
func packetOf(q url.Values) (p securitygroup.Packet, err error) {
	p.Direction = securitygroup.Ingress
	other, own := &p.Source, &p.Destination
	key := "from"
	if q.Has("to") {
		p.Direction, key, other, own = securitygroup.Egress, "to", &p.Destination, &p.Source
	}
	if q.Has("from") == q.Has("to") {
		return p, fault.New(fault.Invalid, "name the other end of the packet: either from=ADDRESS or to=ADDRESS")
	}
	if *other, err = address.Parse(q.Get(key)); err != nil {
		return p, fault.New(fault.Invalid, "%s is not an address: '%s'", key, edge.Clip(q.Get(key)))
	}
	if text := q.Get("address"); text != "" {
		if *own, err = address.Parse(text); err != nil {
			return p, fault.New(fault.Invalid, "address is not an address: '%s'", edge.Clip(text))
		}
	}
	known := false
	if p.Protocol, known = securitygroup.ProtocolNumber(q.Get("protocol")); !known {
		return p, fault.New(fault.Invalid, "protocol is not the name or the number of a protocol: '%s'; send "+
			"protocol=tcp or another one", edge.Clip(q.Get("protocol")))
	}
	if p.Protocol == securitygroup.ICMP && other.Is6() {
		p.Protocol = securitygroup.ICMPv6
	}
	p.Type = map[int]int{securitygroup.ICMP: 8, securitygroup.ICMPv6: 128}[p.Protocol] // an echo request
	for name, into := range map[string]*int{"port": &p.Port, "source_port": &p.SourcePort, "type": &p.Type,
		"code": &p.Code} {
		if !q.Has(name) {
			continue
		}
		if *into, err = strconv.Atoi(q.Get(name)); err != nil || *into < 0 || *into > 65535 {
			return p, fault.New(fault.Invalid, "%s is not a number from 0 to 65535: '%s'", name, edge.Clip(q.Get(name)))
		}
	}
	return p, nil
}

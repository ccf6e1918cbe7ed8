package nftables

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"

	"github.com/openberth/berth/agent/groupfilter"
)

// subsystem is that of ctnetlink among those of nfnetlink.
const subsystem = 1

// Attributes of ctnetlink (linux/netfilter/nfnetlink_conntrack.h) that package nl does not have.
const (
	ctaMark       = 8
	ctaZone       = 18
	ctaMarkMask   = 21
	ctaProtoID    = 1
	ctaProtoSport = 2
	ctaProtoDport = 3
	ctaICMPType   = 5
	ctaICMPCode   = 6
	ctaICMP6Type  = 8
	ctaICMP6Code  = 9
)

// entry is a connection of the kernel with the attributes that name it.
type entry struct {
	groupfilter.Connection
	family     uint8
	tuple      []byte // the payload of CTA_TUPLE_ORIG
	zone, mark []byte
}

// markConnections sets the mark Blocked of the connections that a state does not permit, and clears it of the others.
// It returns how many it has changed.
func markConnections(s groupfilter.State) (blocked, freed int, err error) {
	decide := s.Connections()
	for _, family := range []uint8{syscall.AF_INET, syscall.AF_INET6} {
		all, err := connections(family)
		if err != nil {
			return blocked, freed, err
		}
		for _, e := range all {
			want, has := decide.Blocks(e.Connection), e.Mark&groupfilter.Blocked != 0
			if want == has {
				continue
			}
			if err := setBlocked(e, want); errors.Is(err, syscall.ENOENT) {
				continue // it has ended
			} else if err != nil {
				return blocked, freed, err
			}
			if want {
				blocked++
			} else {
				freed++
			}
		}
	}
	return blocked, freed, nil
}

// request returns a request of ctnetlink.
func request(operation, flags int, family uint8) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(subsystem<<8|operation, flags)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: 0})
	return req
}

// connections returns the connections of one family.
func connections(family uint8) (all []entry, err error) {
	answers, err := request(nl.IPCTNL_MSG_CT_GET, syscall.NLM_F_DUMP, family).Execute(syscall.NETLINK_NETFILTER, 0)
	// a table that changed while it was read is read except for what changed
	if err != nil && !errors.Is(err, nl.ErrDumpInterrupted) {
		return nil, err
	}
	for _, answer := range answers {
		if len(answer) < nl.SizeofNfgenmsg {
			continue
		}
		if e, ok := parseEntry(family, answer[nl.SizeofNfgenmsg:]); ok {
			all = append(all, e)
		}
	}
	return all, nil
}

// parseEntry decodes a message. ok is false for one that is not a connection of two addresses.
func parseEntry(family uint8, message []byte) (e entry, ok bool) {
	e.family = family
	for kind, value := range attributes(message) {
		switch {
		case kind == nl.CTA_TUPLE_ORIG:
			e.tuple = value
			e.parseTuple(value)
		case kind == ctaZone && len(value) == 2:
			e.zone, e.Zone = value, int(binary.BigEndian.Uint16(value))
		case kind == ctaMark && len(value) == 4:
			e.Mark = binary.BigEndian.Uint32(value)
		}
	}
	return e, e.Source.IsValid() && e.Destination.IsValid()
}

func (e *entry) parseTuple(tuple []byte) {
	for kind, value := range attributes(tuple) {
		switch kind {
		case nl.CTA_TUPLE_IP:
			for kind, value := range attributes(value) {
				address, _ := netip.AddrFromSlice(value)
				switch kind {
				case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
					e.Source = address
				case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
					e.Destination = address
				}
			}
		case nl.CTA_TUPLE_PROTO:
			e.parseProtocol(value)
		}
	}
}

func (e *entry) parseProtocol(attribute []byte) {
	for kind, value := range attributes(attribute) {
		n := 0
		switch len(value) {
		case 1:
			n = int(value[0])
		case 2:
			n = int(binary.BigEndian.Uint16(value))
		}
		switch kind {
		case ctaProtoID:
			e.Protocol = n
		case ctaProtoSport:
			e.SourcePort = n
		case ctaProtoDport:
			e.Port = n
		case ctaICMPType, ctaICMP6Type:
			e.Type = n
		case ctaICMPCode, ctaICMP6Code:
			e.Code = n
		}
	}
}

// attributes iterates over netlink attributes: the type and the payload of each.
func attributes(data []byte) func(yield func(kind int, value []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for len(data) >= syscall.SizeofNlAttr {
			length := int(binary.NativeEndian.Uint16(data))
			kind := int(binary.NativeEndian.Uint16(data[2:]) &^ (nl.NLA_F_NESTED | nl.NLA_F_NET_BYTEORDER))
			if length < syscall.SizeofNlAttr || length > len(data) || !yield(kind, data[syscall.SizeofNlAttr:length]) {
				return
			}
			data = data[min(len(data), (length+3)&^3):]
		}
	}
}

// setBlocked sets or clears the bit Blocked in the mark of a connection.
func setBlocked(e entry, blocked bool) error {
	var mark, mask [4]byte
	binary.BigEndian.PutUint32(mask[:], groupfilter.Blocked)
	if blocked {
		mark = mask
	}
	req := request(nl.IPCTNL_MSG_CT_NEW, syscall.NLM_F_ACK, e.family)
	req.AddData(nl.NewRtAttr(int(nl.NLA_F_NESTED|nl.CTA_TUPLE_ORIG), e.tuple))
	if e.zone != nil {
		req.AddData(nl.NewRtAttr(ctaZone, e.zone))
	}
	req.AddData(nl.NewRtAttr(ctaMark, mark[:]))
	req.AddData(nl.NewRtAttr(ctaMarkMask, mask[:]))
	_, err := req.Execute(syscall.NETLINK_NETFILTER, 0)
	return err
}

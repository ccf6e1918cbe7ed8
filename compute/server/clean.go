package server

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/compute/store"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// cleanDevice is POST /berth/v1/hosts/{host}/devices/{address}/clean: an operator wants a device for one-time use back. 202: its agent will
// hear of it until it has answered. 404 when there is no such device, 409 when it has not been used or somebody holds it.
func (s *server) cleanDevice(c *call) error {
	name := c.r.PathValue("host")
	at, err := pci.ParseAddress(c.r.PathValue("address"))
	if err != nil {
		return fault.New(fault.Invalid, "", "%s", fault.TextOf(err))
	}
	h, err := s.Store.Host(c.r.Context(), name)
	if err != nil {
		return s.unknownHost(c.r.Context(), name, err)
	}
	i := slices.IndexFunc(h.Devices, func(d schedule.Device) bool { return d.Address == at })
	switch {
	case i < 0:
		return fault.New(fault.NotFound, "", "host %s offers no device %s", name, at)
	case h.Devices[i].Holder != "":
		return fault.New(fault.Conflict, "", "%s is held by server %s; it can be cleaned when the server is gone", at, h.Devices[i].Holder)
	case !h.Devices[i].Spent:
		return fault.New(fault.Conflict, "", "%s has not been used; there is nothing to clean", at)
	}
	if err := s.Store.RequestClean(c.r.Context(), store.CleanRequest{Host: name, Address: at, Asked: s.Now()}); err != nil {
		return err
	}
	return c.writeStatus(http.StatusAccepted)
}

// settle takes in what a report says of the wishes of operators. That a host no longer offers a device says nothing of its being clean.
func (s *server) resolveCleans(ctx context.Context, h schedule.Host, told []host.CleanResult) error {
	var answers []store.CleanRequest
	for _, a := range told {
		at, err := pci.ParseAddress(a.Address)
		if err != nil {
			return fault.New(fault.Invalid, "", "cleaned: %w", err)
		}
		answers = append(answers, store.CleanRequest{Host: h.Name, Address: at, Asked: a.Asked, Refused: storable(a.Refused)})
	}
	return s.Store.ResolveClean(ctx, h.Name, func(at pci.Address) bool {
		i := slices.IndexFunc(h.Devices, func(d schedule.Device) bool { return d.Address == at })
		return i < 0 || h.Devices[i].Spent
	}, answers)
}

// longestRefusal is how much is kept of what a cleaning program says, in bytes.
const maxRefusal = 4096

// speakable is a text that every database keeps.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text[:min(len(text), maxRefusal)], "\x00", ""), "")
}

// writeWishes are the unanswered wishes as agents are told of them.
func writeCleanRequests(list []store.CleanRequest) []host.CleanRequest {
	var out []host.CleanRequest
	for _, w := range list {
		out = append(out, host.CleanRequest{Address: w.Address.String(), Asked: w.Asked})
	}
	return out
}

// describe writes devices, and what operators want done with them.
func describeDevices(h schedule.Host, wishes []store.CleanRequest) []host.Device {
	out := writeDevices(h)
	for _, w := range wishes {
		i := slices.IndexFunc(out, func(d host.Device) bool { return h.Name == w.Host && d.Address == w.Address.String() })
		if i >= 0 {
			out[i].Wanted, out[i].Refused = w.Asked, w.Refused
		}
	}
	return out
}

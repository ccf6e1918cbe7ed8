package server

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/compute/schedule"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/pci"
)

// wishLife is how long a wish stands in the lines of a host: its agent hears a line much more often. Who asks again has another wish.
const wishLife = 30 * time.Second

// wishes are the devices for one-time use that operators want back. They are kept in memory alone: who asked looks at the device itself for
// what has become of the wish, and asks again when nothing has.
type wishes struct {
	mu     sync.Mutex
	byHost map[string]map[pci.Address]time.Time // when they were asked
}

func (w *wishes) add(host string, at pci.Address, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byHost == nil {
		w.byHost = map[string]map[pci.Address]time.Time{}
	}
	if w.byHost[host] == nil {
		w.byHost[host] = map[pci.Address]time.Time{}
	}
	w.byHost[host][at] = now
}

// of lists the wishes for a host, by address, without those whose time is over.
func (w *wishes) of(name string, now time.Time) []host.Wish {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []pci.Address
	for at, asked := range w.byHost[name] {
		if now.Sub(asked) >= wishLife {
			delete(w.byHost[name], at)
			continue
		}
		list = append(list, at)
	}
	slices.SortFunc(list, pci.Address.Compare)
	var out []host.Wish
	for _, at := range list {
		out = append(out, host.Wish{Address: at.String(), Asked: w.byHost[name][at]})
	}
	return out
}

// cleanDevice is POST /berth/v1/hosts/{host}/devices/{address}/clean: an operator wants a device for one-time use back. 202: its agent will
// hear of it. 404 when there is no such device, 409 when it has not been used or somebody holds it.
func (s *server) cleanDevice(c *call) error {
	name := c.r.PathValue("host")
	at, err := pci.ParseAddress(c.r.PathValue("address"))
	if err != nil {
		return fault.New(fault.Invalid, "", "%s", fault.TextOf(err))
	}
	h, err := s.Store.Host(c.r.Context(), name)
	if err != nil {
		return err
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
	s.wishes.add(name, at, s.Now())
	return c.empty(http.StatusAccepted)
}

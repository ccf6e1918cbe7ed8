package loop

import (
	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/resource"
)

// server writes the allocation of a server to Placement and returns its assignment: one device of each provider.
func (w *testHost) server(id string, providers ...string) host.Server {
	s := host.Server{ID: id, Name: "server " + id, VCPUs: 1, MemoryMB: 512, DiskGB: 1}
	a := resource.Allocation{rootID: {"VCPU": 1}}
	for _, name := range providers {
		p := w.provider(name)
		if len(s.Requests) == 0 {
			s.Requests = []host.Request{{ID: "r-" + id, Alias: "nic", Class: class, VendorID: "8086", ProductID: "154c",
				Type: "type-VF"}}
		}
		s.Requests[0].Count++
		s.Requests[0].Providers = append(s.Requests[0].Providers, string(p.ID))
		if a[p.ID] == nil {
			a[p.ID] = resource.Amounts{}
		}
		a[p.ID][class]++
	}
	w.placement.SetAllocation(resource.ConsumerID(id), a)
	return s
}

// pfServer returns the assignment of a server with a PF, and writes its allocation.
func (w *testHost) pfServer(id, name string) host.Server {
	s, p := w.server(id), w.provider(name)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "pf", Count: 1, Class: pfClass, VendorID: "8086", ProductID: "1572",
		Type: "type-PF", Providers: []string{string(p.ID)}}}
	w.placement.set(resource.ConsumerID(id), p.ID, resource.Amounts{pfClass: 1})
	return s
}

// legacyServer returns the assignment of a server for whose devices Placement has no allocation.
func (w *testHost) legacyServer(id string, count int) host.Server {
	s := w.server(id)
	s.Requests = []host.Request{{ID: "r-" + id, Alias: "nic", Count: count, Class: class, VendorID: "8086",
		ProductID: "154c", Type: "type-VF"}}
	return s
}

// moved returns a server under another id, and moves its allocation in Placement.
func (w *testHost) moved(s host.Server, id string) host.Server {
	w.placement.move(resource.ConsumerID(s.ID), resource.ConsumerID(id))
	s.ID, s.Server, s.PreviousID = id, "s1", s.ID
	if s.Server == s.ID {
		s.Server = ""
	}
	return s
}

// poweredOff returns the server with power off.
func poweredOff(s host.Server) host.Server { s.Power = host.Off; return s }

// poweredOn returns the server with power on.
func poweredOn(s host.Server) host.Server { s.Power = ""; return s }

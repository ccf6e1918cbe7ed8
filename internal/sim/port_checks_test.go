package sim

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/resource"
)

// rest does operations in a cloud, and lets it come to rest.
func rest(t *testing.T, w *World, operations int) {
	t.Helper()
	for range operations {
		w.n++
		w.advance(time.Second)
		w.operate()
	}
	if w.quiesce(); w.failure != "" {
		t.Fatal(w.failure)
	}
}

// restingWithPorts returns a small quiescent cloud, and a bound port with a guarantee in it.
func restingWithPorts(t *testing.T) (*World, network.Port) {
	t.Helper()
	for seed := uint64(1); seed <= 8; seed++ {
		w := newWorld(Options{Seed: seed, Hosts: 24})
		rest(t, w, 4000)
		for _, id := range w.network.ids {
			if p := w.network.ports[id]; p.Host != "" && p.Request != nil && p.VNIC != direct {
				return w, p
			}
		}
	}
	t.Fatal("no port with a guarantee is bound")
	return nil, network.Port{}
}

// What is wrong with the ports of a quiescent cloud is noticed.
func TestPortFaultsAreNoticed(t *testing.T) {
	for name, tamper := range map[string]func(w *World, p network.Port){
		"bound to another host": func(w *World, p network.Port) {
			p.Host = "elsewhere"
			w.network.ports[p.ID] = p
		},
		"not bound": func(w *World, p network.Port) {
			p.VIF = "binding_failed"
			w.network.ports[p.ID] = p
		},
		"another policy": func(w *World, p network.Port) {
			p.Request = request(p, 900)
			w.network.ports[p.ID] = p
		},
		"a lost guarantee": func(w *World, p network.Port) {
			c := resource.ConsumerID(p.Device)
			held := maps.Clone(w.placement.Held(c))
			delete(held, bridgeOf(p.Host))
			w.placement.SetAllocation(c, held)
		},
		"a port too many": func(w *World, p network.Port) {
			more := w.network.create(plainNetwork, "normal", 0)
			more.Device, more.Host, more.VIF = p.Device, p.Host, "ovs"
			w.network.ports[more.ID] = more
		},
		"a port of no server": func(w *World, p network.Port) {
			more := w.network.create(plainNetwork, "normal", 0)
			more.Device = "no server"
			w.network.ports[more.ID] = more
			w.repairPorts()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, p := restingWithPorts(t)
			tamper(w, p)
			for _, id := range slices.Sorted(maps.Keys(w.compute.servers)) {
				if w.failure == "" {
					w.checkPorts(w.compute.servers[id])
				}
			}
			if !strings.Contains(w.failure, "port: ") {
				t.Errorf("not noticed: %q", w.failure)
			}
		})
	}
}

package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/fault"
)

func TestConcurrentCreationOfFiftyServers(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	var work sync.WaitGroup
	for i := range 50 {
		work.Go(func() {
			if _, err := h.admin.CreateServer(t.Context(), compute.CreateServer{Name: fmt.Sprint("s", i),
				Flavor: "small"}); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
	list, err := h.admin.Servers(t.Context(), compute.ListServers{Status: "BUILD"})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range list {
		names[s.Name] = true
	}
	if len(list) != 50 || len(names) != 50 {
		t.Fatalf("%d servers with %d names", len(list), len(names))
	}
}

func TestServersOfOneRequestShareReservation(t *testing.T) {
	h, ctx := start(t), t.Context()
	h.flavor("gpu", map[string]string{"pci_passthrough:alias": "gpu:2"})
	h.server(h.admin, "s-9", "gpu")
	made, err := h.admin.CreateServer(ctx, compute.CreateServer{Name: "s", Flavor: "gpu", MinCount: 1, MaxCount: 3,
		Reservation: true})
	if err != nil || !strings.HasPrefix(made.Reservation, "r-") {
		t.Fatalf("%+v %v", made, err)
	}
	list, err := h.admin.Servers(ctx, compute.ListServers{Reservation: made.Reservation})
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v %v", list, err)
	}
	requests := map[string]bool{}
	for i, s := range list {
		if want := fmt.Sprintf("s-%d", 3-i); s.Name != want || s.Extended.LaunchIndex != 2-i ||
			s.Extended.Reservation != made.Reservation {
			t.Errorf("%s, %+v", s.Name, s.Extended)
		}
		h.prepare(s.ID)
		why, err := h.admin.Why(ctx, s.ID)
		if err != nil || len(why.Requests) != 1 || len(why.Groups) != 3 {
			t.Fatalf("%+v %v", why, err)
		}
		requests[why.Requests[0].ID] = true
	}
	if len(requests) != 3 {
		t.Errorf("servers share request ids: %v", requests)
	}
}

func TestFailedRequestForSeveralServersCreatesNone(t *testing.T) {
	h := start(t)
	h.flavor("small", nil)
	h.conductor.room, h.conductor.fails = 2, fault.New(fault.Unavailable, "the disk is full")
	r := h.ask("POST", "/v2.1/servers", `{"server": {"name": "s", "flavorRef": "small", "max_count": 3}}`)
	if r.status != 503 {
		t.Fatalf("%d %s", r.status, r.text)
	}
	if list, err := h.store.Servers(t.Context(), allServers()); err != nil || len(list) != 0 {
		t.Errorf("%d servers were created (%v)", len(list), err)
	}
}

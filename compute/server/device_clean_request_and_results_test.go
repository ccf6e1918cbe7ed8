package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// TestCleanRequestIsSentUntilAgentAnswers checks that a clean request is in the assignments of a host, also after a
// restart of compute, until the agent has answered. The API shows the request and the refusal.
func TestCleanRequestIsSentUntilAgentAnswers(t *testing.T) {
	moment := time.Date(2026, 3, 4, 5, 6, 7, 123456000, time.UTC)
	o := Options{}
	h, ctx := startWith(t, func(with *Options) {
		with.Now = func() time.Time { return moment }
		o = *with
	}), t.Context()
	const gpu = "10000:00:02.0"
	r := report("host1")
	put := func() {
		t.Helper()
		if err := h.hosts.PutReport(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	shown := func() host.Device {
		t.Helper()
		devices, err := h.hosts.Devices(ctx)
		if err != nil {
			t.Fatal(err)
		}
		reports, err := h.hosts.Hosts(ctx)
		if err != nil || !reflect.DeepEqual(reports[0].Devices, devices) {
			t.Errorf("hosts and devices differ: %+v %v", reports, err)
		}
		return devices[2]
	}
	operator := host.Client{REST: &rest.Client{Base: h.url, Headers: map[string]string{"X-Auth-Token": "admin"}}}
	clean := func() error { return operator.Clean(ctx, "host1", gpu) }
	put()
	if err := clean(); !fault.Is(err, fault.Conflict) {
		t.Errorf("a device that was not used: %v", err)
	}
	r.Devices[2].OneTimeUse, r.Devices[2].Spent = true, true
	r.Devices[2].Present = new(false)
	put()
	if d := shown(); !d.Gone() || !d.Spent {
		t.Errorf("spent, and not on the host: %+v", d)
	}
	r.Devices[2].Present = nil
	put()
	if d := shown(); d.Gone() {
		t.Errorf("on the host again: %+v", d)
	}
	if err := clean(); err != nil {
		t.Fatal(err)
	}
	if d := shown(); !d.Wanted.Equal(moment) || d.Refused != "" {
		t.Errorf("%+v", d)
	}
	restarted := httptest.NewServer(New(o))
	defer restarted.Close()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	received, _ := watchHost(watching, host.Client{REST: &rest.Client{Base: restarted.URL, Headers: h.hosts.REST.Headers}},
		"host1",
		0)
	want := []host.CleanRequest{{Address: gpu, Asked: moment}}
	if a := nextLine(t, received); !reflect.DeepEqual(a.Clean, want) {
		t.Errorf("after the start: %+v", a)
	}
	r.Cleaned = []host.CleanResult{{Address: gpu, Asked: moment, Refused: "no wiper"}}
	put()
	if d := shown(); !d.Wanted.Equal(moment) || d.Refused != "no wiper" {
		t.Errorf("%+v", d)
	}
	moment = moment.Add(time.Hour)
	if err := clean(); err != nil {
		t.Fatal(err)
	}
	r.Cleaned, r.Devices[2].Spent = []host.CleanResult{{Address: gpu, Asked: moment}}, false
	put()
	if d := shown(); !d.Wanted.IsZero() || d.Refused != "" {
		t.Errorf("%+v", d)
	}
	r.Cleaned = []host.CleanResult{{Address: "nonsense"}}
	if err := h.hosts.PutReport(ctx, r); !fault.Is(err, fault.Invalid) {
		t.Errorf("a result for an invalid address: %v", err)
	}
	if r := h.ask(http.MethodPost, "/berth/v1/hosts/host1/devices/"+gpu+"/clean", "", "X-Auth-Token",
		"ann"); r.status != http.StatusForbidden {
		t.Errorf("as a user: %d", r.status)
	}
}

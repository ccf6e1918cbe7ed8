package read

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/fleet"
)

// Berth's Placement is read with one request, another one provider by provider. One that breaks off is not asked for
// each provider instead: it is busy.
func TestReadWhole(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	state := func(kind, object string) string {
		return fmt.Sprintf("event: state\ndata: {\"action\":\"state\",\"kind\":%q,\"object\":%s}\n\n", kind, object)
	}
	objects := "data: {\"action\":\"reset\"}\n\n" +
		state("inventory", `{"provider":"cmp1_gpu","resource_class":"CUSTOM_GPU","total":2,"allocation_ratio":1}`) +
		state("provider", `{"uuid":"cmp1_gpu","name":"cmp1_gpu","parent_provider_uuid":"cmp1","root_provider_uuid":"cmp1",`+
			`"traits":["CUSTOM_B","CUSTOM_A"]}`) +
		state("allocation", `{"consumer":"s1","provider":"cmp1_gpu","resources":{"CUSTOM_GPU":1}}`) +
		state("provider", `{"uuid":"cmp1","name":"cmp1","root_provider_uuid":"cmp1"}`)
	stream := objects + "id: 7\ndata: {\"action\":\"synced\"}\n\n"
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		if r.URL.Path != "/berth/v1/events" {
			c.answer(w, r)
			return
		}
		if stream == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte(stream)) // the client may be gone
	}))
	t.Cleanup(server.Close)
	read := func() ([]fleet.Provider, error) {
		services := c.services()
		services.Placement = placement.NewClient(server.URL, nil, "t")
		asked = nil
		s, _, err := Read(t.Context(), services, Options{Traits: true, Copy: &Copy{}})
		if err != nil {
			return nil, err
		}
		return s.Providers, nil
	}
	got, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) != 1 || len(got) != 2 || got[0].Name != "cmp1" || got[1].Used("CUSTOM_GPU") != 1 ||
		got[1].Inventories["CUSTOM_GPU"].Capacity() != 2 || got[1].Root != "cmp1" || !got[1].HasTrait("CUSTOM_A") ||
		got[1].Traits[0] != "CUSTOM_A" {
		t.Errorf("%v: %+v", asked, got)
	}
	stream = objects // a Placement that is stopped, or that has no room for one more stream
	if got, err := read(); !fault.Is(err, fault.Unavailable) || len(asked) != 1 {
		t.Errorf("a stream that breaks: %v %+v %v", asked, got, err)
	}
	stream = "" // OpenStack's Placement
	if got, err := read(); err != nil || len(got) != 3 || len(asked) < 4 {
		t.Errorf("without events: %v %+v %v", asked, got, err)
	}
}

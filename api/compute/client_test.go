package compute

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

// stub returns a client of a server that responds with the results of a function.
func stub(t *testing.T, answer func(r *http.Request) (int, any)) *Client {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body := answer(r)
		rest.WriteJSON(w, status, body)
	}))
	t.Cleanup(web.Close)
	return NewClient(web.URL+"/", nil, "admin:p")
}

func TestClientReadsAllPages(t *testing.T) {
	const total = 2*pageSize + 1
	c := stub(t, func(r *http.Request) (int, any) {
		from := 0
		fmt.Sscan(r.URL.Query().Get("marker"), &from)
		var page []Ref
		for i := from + 1; i <= min(from+pageSize, total); i++ {
			page = append(page, Ref{ID: fmt.Sprint(i)})
		}
		return 200, map[string]any{"servers": page, "flavors": page}
	})
	servers, err := c.Servers(t.Context(), ListServers{})
	if err != nil || len(servers) != total || servers[total-1].ID != fmt.Sprint(total) {
		t.Errorf("%d servers, %v", len(servers), err)
	}
	flavors, err := c.Flavors(t.Context())
	if err != nil || len(flavors) != total {
		t.Errorf("%d flavors, %v", len(flavors), err)
	}
}

func TestClientFindsServersByName(t *testing.T) {
	named := map[string]int{"one+": 1, "two": 2}
	c := stub(t, func(r *http.Request) (int, any) {
		if r.URL.Path != "/v2.1/servers/detail" {
			return 404, map[string]any{"itemNotFound": map[string]any{"code": 404, "message": "no"}}
		}
		q := r.URL.Query()
		if q.Has("all_tenants") {
			return 403, map[string]any{"forbidden": map[string]any{"code": 403, "message": "no"}}
		}
		var list []Ref
		for name, n := range named {
			if q.Get("name") == "^"+strings.ReplaceAll(name, "+", `\+`)+"$" {
				list = slices.Repeat([]Ref{{ID: "id-" + name}}, n)
			}
		}
		return 200, map[string]any{"servers": list}
	})
	if s, err := c.Server(t.Context(), "one+"); err != nil || s.ID != "id-one+" {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := c.Server(t.Context(), "two"); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	if _, err := c.Server(t.Context(), "none"); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
}

func TestClientSendsTokenAndVersion(t *testing.T) {
	var got *http.Request
	var body map[string]any
	c := stub(t, func(r *http.Request) (int, any) {
		got = r
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		return 202, map[string]any{"server": map[string]any{"id": "x"}, "reservation_id": "r-1"}
	})
	made, err := c.CreateServer(context.Background(), CreateServer{Name: "a", Flavor: "f"})
	if err != nil || made.ID != "x" || made.Reservation != "r-1" {
		t.Fatalf("%+v %v", made, err)
	}
	if got.Header.Get("X-Auth-Token") != "admin:p" || got.Header.Get(VersionHeader) != "compute 2.104" ||
		got.URL.Path != "/v2.1/servers" {
		t.Errorf("%s %v", got.URL, got.Header)
	}
	want := map[string]any{"server": map[string]any{"name": "a", "flavorRef": "f", "imageRef": "", "networks": "none"}}
	if !reflect.DeepEqual(body, want) {
		t.Errorf("%v, want %v", body, want)
	}
}

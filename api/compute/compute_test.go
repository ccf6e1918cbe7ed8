package compute

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
)

func TestNegotiate(t *testing.T) {
	for _, c := range []struct {
		generic []string
		legacy  string
		want    Version
		code    string
		kind    fault.Kind
	}{
		{nil, "", Min, "", ""},
		{[]string{"compute 2.47"}, "", 47, "", ""},
		{[]string{"Compute  2.47"}, "2.3", 47, "", ""},
		{nil, "2.3", 3, "", ""},
		{nil, "latest", Max, "", ""},
		{[]string{"compute latest"}, "", Max, "", ""},
		{[]string{"compute LATEST"}, "", Max, "", ""},
		{[]string{"volume 3.27, compute 2.9"}, "", 9, "", ""},
		{[]string{"volume 3.27", "compute 2.9"}, "", 9, "", ""},
		{[]string{"volume 3.27"}, "", Min, "", ""},
		{[]string{"compute 2.62"}, "", Min, NotServed, fault.Invalid},
		{[]string{"compute 2.0"}, "", Min, NotServed, fault.Invalid},
		{[]string{"compute 1.1"}, "", Min, NotServed, fault.Invalid},
		{[]string{"compute 3.1"}, "", Min, NotServed, fault.Invalid},
		{nil, "2.999999999", Min, NotServed, fault.Invalid},
		{[]string{"compute 2.09"}, "", Min, "", fault.Invalid},
		{[]string{"compute 2"}, "", Min, "", fault.Invalid},
		{[]string{"compute 2.1.1"}, "", Min, "", fault.Invalid},
		{nil, "-2.1", Min, "", fault.Invalid},
		{nil, "2.99999999999999999999", Min, "", fault.Invalid},
	} {
		h := http.Header{}
		for _, line := range c.generic {
			h.Add(VersionHeader, line)
		}
		if c.legacy != "" {
			h.Set(LegacyVersionHeader, c.legacy)
		}
		got, err := Negotiate(h)
		if got != c.want || fault.KindOf(err) != c.kind || fault.CodeOf(err) != c.code {
			t.Errorf("%q %q: %s %v; want %s, kind %q, code %q", c.generic, c.legacy, got, err, c.want, c.kind, c.code)
		}
	}
}

// TestTableInPackageComment tests that the table in the package comment equals Effects.
func TestTableInPackageComment(t *testing.T) {
	source, err := os.ReadFile("compute.go")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(source)) {
		if rest, ok := strings.CutPrefix(line, "//\t2."); ok {
			lines = append(lines, "2."+strings.TrimSpace(rest))
		}
	}
	var want []string
	for _, e := range Effects() {
		want = append(want, fmt.Sprintf("%-6s %s", e.Version, e.Text))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the comment has\n%s\nEffects has\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	if !slices.IsSortedFunc(Effects(), func(a, b Effect) int { return int(a.Version - b.Version) }) {
		t.Error("Effects are not in order")
	}
}

func TestServerInJSON(t *testing.T) {
	moment := time.Date(2026, 1, 2, 3, 4, 5, 678, time.FixedZone("", 3600))
	s := Server{ID: "i", Image: "", Created: Time{moment}, Flavor: ServerFlavor{ID: "f"}}
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"created":"2026-01-02T02:04:05Z"`, `"image":""`, `"OS-EXT-STS:task_state":null`,
		`"flavor":{"id":"f"}`} {
		if !strings.Contains(string(data), part) {
			t.Errorf("no %s in %s", part, data)
		}
	}
	for _, key := range []string{"host_status", "description", "tags", "OS-EXT-SRV-ATTR", "locked", "fault", "progress"} {
		if strings.Contains(string(data), key) {
			t.Errorf("%s is in %s", key, data)
		}
	}
	text := "d"
	s.Described, s.Tags, s.Place = &Described{&text}, []string{}, &Place{}
	s.Flavor = ServerFlavor{FlavorValues: &FlavorValues{Name: "f", RAM: 5}}
	s.Created = Time{moment.UTC().Truncate(time.Second)}
	if data, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	var back Server
	if err := json.Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%v\n%+v\n%+v", err, back, s)
	}
	for swap, want := range map[Swap]string{0: `""`, 64: "64"} {
		data, err := json.Marshal(swap)
		var back Swap
		if err != nil || string(data) != want || json.Unmarshal(data, &back) != nil || back != swap {
			t.Errorf("%d: %s %v %d", swap, data, err, back)
		}
	}
	var swap Swap
	if json.Unmarshal([]byte("0"), &swap) != nil || swap != 0 { // since 2.75
		t.Error("swap 0 is not read as 0")
	}
}

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
	if got.Header.Get("X-Auth-Token") != "admin:p" || got.Header.Get(VersionHeader) != "compute 2.61" ||
		got.URL.Path != "/v2.1/servers" {
		t.Errorf("%s %v", got.URL, got.Header)
	}
	want := map[string]any{"server": map[string]any{"name": "a", "flavorRef": "f", "imageRef": "", "networks": "none"}}
	if !reflect.DeepEqual(body, want) {
		t.Errorf("%v, want %v", body, want)
	}
}

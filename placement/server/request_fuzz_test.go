package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/edge"
	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/sqldb"
)

// FuzzRequest sends complete requests. No request may cause status 500 or a panic, and every refusal must have an error
// document.
func FuzzRequest(f *testing.F) {
	const id, claim = "00000000-0000-4000-8000-000000000001",
		`{"allocations":{"00000000-0000-4000-8000-000000000001":{"resources":{"VCPU":1}}},` +
			`"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`
	f.Add(39, "POST", "/resource_providers", `{"name":"a","uuid":"`+id+`"}`, "")
	f.Add(39, "PUT", "/resource_providers/"+id+"/inventories",
		`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":8}}}`, "")
	f.Add(39, "PUT", "/resource_providers/"+id+"/traits", `{"resource_provider_generation":1,"traits":["CUSTOM_A"]}`, "")
	f.Add(19, "PUT", "/resource_providers/"+id+"/aggregates",
		`{"resource_provider_generation":1,"aggregates":["`+id+`"]}`, "")
	f.Add(39, "PUT", "/allocations/"+id, claim, "")
	f.Add(39, "POST", "/allocations", `{"`+id+`":`+claim+`}`, "")
	f.Add(39, "POST", "/reshaper", `{"inventories":{},"allocations":{"`+id+`":`+claim+`}}`, "")
	f.Add(0, "PUT", "/allocations/"+id, `{"allocations":[{"resource_provider":{"uuid":"`+id+
		`"},"resources":{"VCPU":1}}]}`, "")
	f.Add(39, "GET", "/allocation_candidates?resources=VCPU:1&resources_A=VCPU:1&group_policy=none&same_subtree=_A"+
		"&required=in:A,B&limit=2", "", "text/html")
	f.Add(12, "GET", "/resource_providers?resources=VCPU:1&member_of=in:"+id+"&name=%00", "", "")
	f.Add(7, "PUT", "/resource_classes/CUSTOM_X", "", "")
	f.Add(6, "PUT", "/traits/CUSTOM_%C3%9C", "", "")
	f.Add(39, "GET", "/usages?project_id=p&consumer_type=all", "", "")
	s := newFuzzedServer(f)
	f.Fuzz(func(t *testing.T, minor int, method, target, body, accept string) {
		r, err := http.NewRequest(method, "http://example.com", strings.NewReader(body))
		if err != nil || !strings.HasPrefix(target, "/") {
			return // clients cannot send it
		}
		if r.URL, err = r.URL.Parse(target); err != nil {
			return
		}
		r.RequestURI = target
		r.Header.Set("X-Auth-Token", "admin")
		r.Header.Set(api.VersionHeader, fmt.Sprintf("placement 1.%d", minor))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", accept)
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if rec.Code >= 500 && rec.Code != http.StatusNotImplemented || rec.Code < 200 {
			t.Fatalf("%d for %s %q: %s", rec.Code, method, target, rec.Body)
		}
		if rec.Code >= 400 && method != http.MethodHead &&
			strings.HasPrefix(rec.Header().Get("Content-Type"), "application/json") && !json.Valid(rec.Body.Bytes()) {
			t.Fatalf("%d for %s %q without an error document: %q", rec.Code, method, target, rec.Body)
		}
	})
}

// newFuzzedServer returns a server with an empty database.
func newFuzzedServer(f *testing.F) *Server {
	ctx := f.Context()
	db, err := sqldb.Open(ctx, "sqlite:///"+filepath.Join(f.TempDir(), "placement.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close() })
	s, err := store.Open(ctx, db)
	if err == nil {
		err = s.Sync(ctx)
	}
	if err != nil {
		f.Fatal(err)
	}
	server, err := New(ctx, s, Options{Options: edge.Options{Authenticate: identity.NoAuth2}})
	if err != nil {
		f.Fatal(err)
	}
	return server
}

package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openberth/berth/api/identity"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// BenchmarkCandidates asks for a server with one VF, 1000 candidates at most, in a fleet of 2000 hosts with four NICs each.
func BenchmarkCandidates(b *testing.B) {
	var rows []index.Row
	add := func(id, parent, root string, stock map[resource.Class]resource.Inventory, traits ...resource.Trait) {
		rows = append(rows, index.Row{Provider: provider.Provider{ID: provider.ID(id), Name: id, Parent: provider.ID(parent), Root: provider.ID(root), Inventories: stock, Traits: traits}})
	}
	for h := range 2000 {
		host := fmt.Sprintf("00000000-0000-4000-8000-%012d", h)
		add(host, "", host, map[resource.Class]resource.Inventory{"VCPU": resource.Whole(64), "MEMORY_MB": resource.Whole(1 << 18), "DISK_GB": resource.Whole(2000)}, "COMPUTE_NODE", "HW_CPU_X86_AVX")
		for n := range 4 {
			add(fmt.Sprintf("10000000-0000-4000-8000-%011d%d", h, n), host, host, map[resource.Class]resource.Inventory{"CUSTOM_VF": resource.Whole(8)}, "CUSTOM_PHYSNET_A")
		}
	}
	// The names are taken for known, so that no store is asked.
	s := &Server{opts: Options{Auth: identity.NoAuth2, Policy: plainPolicy{}, MaxCandidates: defaultMaxCandidates}, routes: routes(), index: newLive(nil), names: newNames(nil)}
	quiet(s)
	s.index.snapshot.Store(index.Build(rows))
	s.names.classes = map[resource.Class]bool{"VCPU": true, "MEMORY_MB": true, "CUSTOM_VF": true}
	s.names.traits = map[resource.Trait]bool{"CUSTOM_PHYSNET_A": true}
	r := httptest.NewRequest("GET", "/allocation_candidates?resources=VCPU:2,MEMORY_MB:1024&resources_VF=CUSTOM_VF:1&required_VF=CUSTOM_PHYSNET_A&limit=1000", nil)
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set(api.VersionHeader, "placement 1.39")
	b.ReportAllocs()
	for b.Loop() {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK || rec.Body.Len() < 100_000 {
			b.Fatalf("%d, %d bytes", rec.Code, rec.Body.Len())
		}
	}
}

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/fleet"
)

// damagedCloud is a fake of Nova, Placement and Neutron with one host, on which a consumer without a server holds CPUs.
type damagedCloud struct {
	mu      sync.Mutex
	orphan  map[string]any // its allocations; nil: none
	changes []string

	explains bool           // Placement is Berth's
	refuses  bool           // Placement does not know a class of the request
	extra    map[string]any // more answers, by path
}

func newDamagedCloud(t *testing.T) (*damagedCloud, *Globals, *bytes.Buffer) {
	c := &damagedCloud{}
	c.hold()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	var out bytes.Buffer
	return c, &Globals{PlacementURL: server.URL, ComputeURL: server.URL, NetworkURL: server.URL, ImageURL: server.URL,
		Token: "t", OutputFlags: OutputFlags{Output: "table", Wide: true}, Stdout: &out, Stderr: &bytes.Buffer{},
		Stdin: strings.NewReader("n\n")}, &out
}

func (c *damagedCloud) hold() {
	c.orphan = map[string]any{"allocations": map[string]any{"rp": map[string]any{"resources": map[string]any{"VCPU": 2}}},
		"consumer_generation": 5, "project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
}

func (c *damagedCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Method != http.MethodGet {
		var body map[string]any
		json.NewDecoder(r.Body).Decode(&body) // the test compares what is written
		c.changes = append(c.changes, r.Method+" "+r.URL.Path)
		if c.orphan = body; len(body["allocations"].(map[string]any)) == 0 {
			c.orphan = nil
		}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	none := map[string]any{"allocations": map[string]any{}}
	held := none
	if c.orphan != nil {
		held = c.orphan
	}
	onHost := none
	if c.orphan != nil {
		onHost = map[string]any{"allocations": map[string]any{"lost": map[string]any{"resources": map[string]any{"VCPU": 2}}}}
	}
	answers := map[string]any{
		"/": map[string]any{"versions": []any{map[string]any{"id": "v2.1", "version": "2.96"}}},
		"/resource_providers": map[string]any{"resource_providers": []any{map[string]any{"uuid": "rp", "name": "cmp1",
			"root_provider_uuid": "rp", "generation": 3}}},
		"/resource_providers/rp/inventories": map[string]any{"resource_provider_generation": 3, "inventories": map[string]any{
			"VCPU": map[string]any{"total": 8, "allocation_ratio": 1.0, "max_unit": 8}}},
		"/resource_providers/rp/allocations": onHost,
		"/allocations/lost":                  held,
		"/v2.1/servers/detail":               map[string]any{"servers": []any{}},
		"/v2.1/os-migrations":                map[string]any{"migrations": []any{}},
		"/v2.1/os-hypervisors/detail": map[string]any{"hypervisors": []any{map[string]any{"id": "rp",
			"hypervisor_hostname": "cmp1", "service": map[string]any{"host": "cmp1"}}}},
		"/v2.1/os-services": map[string]any{"services": []any{map[string]any{"host": "cmp1", "state": "up"}}},
		"/v2.0/ports":       map[string]any{"ports": []any{}},
		"/v2.1/servers/web": map[string]any{"server": map[string]any{"id": "web", "name": "web", "status": "ERROR",
			"created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z", "image": map[string]any{"id": "i"},
			"fault":  map[string]any{"message": "No valid host was found.", "created": "2026-01-01T00:00:00Z"},
			"flavor": map[string]any{"vcpus": 99, "ram": 512, "extra_specs": map[string]any{"pci_passthrough:alias": "gpu:1"}}}},
		"/v2.1/servers/web/os-instance-actions": map[string]any{"instanceActions": []any{map[string]any{
			"request_id": "req-1"}}},
		"/v2.1/servers/web/os-instance-actions/req-1": map[string]any{"instanceAction": map[string]any{"action": "create",
			"start_time": "2026-01-01T00:00:00", "message": "Error", "events": []any{map[string]any{
				"event": "conductor_schedule_and_build_instances", "result": "Error"}}}},
		"/allocation_candidates": map[string]any{"allocation_requests": []any{}, "provider_summaries": map[string]any{}},
		"/v2.0/agents":           map[string]any{"agents": []any{}},
		"/v2/images/i":           map[string]any{"id": "i", "status": "active", "trait:HW_CPU_X86_AVX2": "required"},
	}
	if c.explains {
		answers["/berth/v1/explain"] = map[string]any{"reason": "no host has 99 VCPU"}
	}
	if r.URL.Path == "/resource_providers" && r.URL.Query().Get("required") != "" {
		answers[r.URL.Path] = map[string]any{"resource_providers": []any{}}
	}
	maps.Copy(answers, c.extra)
	answer, known := answers[r.URL.Path]
	switch {
	case c.refuses && r.URL.Path == "/allocation_candidates":
		w.WriteHeader(http.StatusBadRequest)
		answer = map[string]any{"errors": []any{map[string]any{"status": 400,
			"detail": "No such resource class CUSTOM_GPU."}}}
	case answer == nil || !known:
		w.WriteHeader(http.StatusNotFound)
	}
	json.NewEncoder(w).Encode(answer) // the client may be gone
}

// An orphan is found with exit status 3, healed only with consent, and restored by the undo file.
func TestAudit(t *testing.T) {
	c, g, out := newDamagedCloud(t)
	status := func(err error) int {
		if e, ok := errors.AsType[*StatusError](err); ok {
			return e.Status
		}
		if err != nil {
			t.Error(err)
		}
		return 0
	}
	file := filepath.Join(t.TempDir(), "undo.json")
	short := AuditCmd{BetweenLooks: time.Millisecond}
	if got := status(short.Run(g)); got != 3 || !strings.Contains(out.String(), "orphaned allocation") ||
		!strings.Contains(out.String(), "remove VCPU:2") {
		t.Errorf("status %d: %s", got, out)
	}
	other := short
	if other.Rule = []string{"over capacity"}; status(other.Run(g)) != 0 {
		t.Error("a rule that is not selected counts")
	}
	heals := short
	heals.Heal, heals.UndoFile = true, file
	if got := status(heals.Run(g)); got != 3 || len(c.changes) != 0 { // the answer is n
		t.Errorf("without consent: status %d, %q", got, c.changes)
	}
	heals.Yes = true
	if got := status(heals.Run(g)); got != 0 || !slices.Equal(c.changes, []string{"PUT /allocations/lost"}) ||
		c.orphan != nil {
		t.Errorf("status %d, %q %v", got, c.changes, c.orphan)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", err, info.Mode())
	}
	if got := status(short.Run(g)); got != 0 {
		t.Errorf("after healing: status %d", got)
	}
	undo := AuditCmd{Undo: file}
	for range 2 { // an undo can be repeated
		if got := status(undo.Run(g)); got != 0 || c.orphan["project_id"] != "p" {
			t.Errorf("undo: status %d %v", got, c.orphan)
		}
	}
	if err := heals.Run(g); err == nil || !strings.Contains(err.Error(), "exists") {
		t.Errorf("the undo file is overwritten: %v", err)
	}
	g.Output = "json"
	out.Reset()
	var found struct{ Differences []fleet.Finding }
	if got := status(short.Run(g)); got != 3 || json.Unmarshal(out.Bytes(), &found) != nil ||
		len(found.Differences) != 1 || found.Differences[0].Rule != fleet.Orphaned {
		t.Errorf("status %d %s", got, out)
	}
}

// Flags that contradict each other, and files that are not valid, are refused.
func TestWrongAudits(t *testing.T) {
	for want, c := range map[string]AuditCmd{"negative": {BetweenLooks: -1}, "at least 1s": {Heal: true},
		"need --heal": {Yes: true}, "exclude each other": {Heal: true, BetweenLooks: time.Minute, Undo: "x"}} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	_, g, _ := newDamagedCloud(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("[pci]\nalias = {\"name\": \"gpu\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]AuditCmd{"not an undo file": {Undo: file}, "cannot read": {Undo: file + "x"},
		"[pci] alias": {AliasFile: []string{file}}} {
		if err := c.Run(g); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A server of Nova is explained with what Nova has recorded, and by Placement where it is Berth's.
func TestWhyOfNova(t *testing.T) {
	c, g, out := newDamagedCloud(t)
	why := ServerWhyCmd{Server: "web"}
	common := []string{"web (web) is ERROR", "No valid host was found.", "create: Error",
		"conductor_schedule_and_build_instances: Error", "VCPU%3A99", "HW_CPU_X86_AVX2",
		"root_required=%21COMPUTE_STATUS_DISABLED", "without the devices of pci_passthrough:alias=gpu:1",
		"now Placement has no candidates"}
	check := func(want ...string) {
		t.Helper()
		out.Reset()
		if err := why.Run(g); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("no %q in %s", text, out)
			}
		}
	}
	check(append(slices.Clone(common), "does not explain; by its providers: no provider offers MEMORY_MB",
		"cmp1: MEMORY_MB: asks 512, none here")...)
	c.extra = map[string]any{"/v2/images/i": nil, "/resource_providers": nil}
	check("without the properties of its image, which cannot be read", "its providers cannot be read")
	c.extra = nil
	c.refuses = true
	check("No valid host was found.", "Placement refuses the request: No such resource class CUSTOM_GPU.")
	c.refuses, c.explains = false, true
	check(append(slices.Clone(common), "no host has 99 VCPU")...)
	g.Output = "json"
	out.Reset()
	var doc novaWhy
	if err := why.Run(g); err != nil || json.Unmarshal(out.Bytes(), &doc) != nil || doc.Now == nil || doc.Fits != 0 {
		t.Errorf("%v %s", err, out)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

// Allocations written below microversion 1.38 have no consumer type. The agent adds the device to such an allocation,
// and the server can be deleted.
func TestAllocationWithoutConsumerType(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	path := conf(t, machine(t, 1, 2), "rescan_interval = 1")
	d := up(t, path, filepath.Join(t.TempDir(), "data"))
	placementURL := d.urls["placement"]
	cmd := func(args ...string) string {
		t.Helper()
		stdout, stderr, status := output(t, append(args, "--compute-url", d.urls["compute"], "--placement-url",
			placementURL)...)
		if status != 0 {
			t.Fatalf("%s: %s %s", args, stdout, stderr)
		}
		return stdout
	}
	cmd("flavor", "create", "f", "--ram", "64", "--property", "pci_passthrough:alias=vf:1")
	cmd("server", "create", "s", "--flavor", "f", "--wait")
	var servers []struct{ ID string }
	if err := json.Unmarshal([]byte(cmd("server", "list", "-o", "json")), &servers); err != nil || len(servers) != 1 {
		t.Fatal(err, servers)
	}
	consumer := resource.ConsumerID(servers[0].ID)
	client := api.NewClient(placementURL, nil, "admin")
	was, err := client.Allocation(t.Context(), consumer)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.DeleteAllocation(t.Context(), consumer); err != nil {
		t.Fatal(err)
	}
	old := rest.Client{Base: placementURL, Headers: map[string]string{"X-Auth-Token": "admin",
		"OpenStack-API-Version": "placement 1.12"}}
	root := map[string]any{}
	for id, amounts := range was.Allocation {
		if amounts["VCPU"] > 0 {
			root[string(id)] = map[string]any{"resources": amounts}
		}
	}
	body := map[string]any{"allocations": root, "project_id": was.Project, "user_id": was.User}
	if _, err := old.Do(t.Context(), "PUT", "/allocations/"+string(consumer), body, nil); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		now, err := client.Allocation(t.Context(), consumer)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(now.Allocation) == fmt.Sprint(was.Allocation) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the device was not added: %v, want %v\n%s", now.Allocation, was.Allocation, cmd("host", "list"))
		}
	}
	cmd("server", "delete", "s", "--wait")
}

//go:build nova

package nova

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/clienttest"
	"github.com/openberth/berth/internal/neutron"
	"github.com/openberth/berth/internal/testenv"
)

// watchedEvent is an event that `berth watch` prints.
type watchedEvent struct {
	Action, Kind, ID string
	Object           struct {
		Name string
		Host string `json:"binding:host_id"`
		VIF  string `json:"binding:vif_type"`
	}
}

// watch starts `berth watch` for one kind, as the administrator of the cloud, and waits until it has read the present
// state. The function that it returns returns the events of an object in the order in which they were printed.
func watch(t *testing.T, c *clienttest.Cloud, program, kind string) (of func(id string) []watchedEvent) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "events")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "watch", "--kind", kind, "--state", "-o", "json")
	cmd.Env, cmd.Stdout = append(os.Environ(), c.Credentials(c.Region)...), out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Wait() // killed with the context
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	})
	read := func() (all []watchedEvent) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e watchedEvent
			if json.Unmarshal([]byte(line), &e) == nil { // the last line may not be whole yet
				all = append(all, e)
			}
		}
		return all
	}
	testenv.Until(t, "berth watch has read all objects", func() error {
		for _, e := range read() {
			if e.Action == "synced" {
				return nil
			}
		}
		return errors.New("it has not")
	})
	return func(id string) (list []watchedEvent) {
		for _, e := range read() {
			if e.ID == id {
				list = append(list, e)
			}
		}
		return list
	}
}

// TestWatchedPorts creates, binds and deletes a port in OpenStack's Neutron, which has no events. `berth watch` prints
// each change once, and nothing of a port that does not change.
func TestWatchedPorts(t *testing.T) {
	c := clienttest.Start(t)
	c.StartBerth(t)
	nets := neutron.Start(t, c)
	program, err := bench.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	nets.Report(t, "cmp1", bandwidth.Agent{Type: bandwidth.OpenVSwitch, DefaultHypervisor: "cmp1",
		Mappings: []bandwidth.Mapping{{Physnet: "physnet0", Device: "br-ex"}}})
	client, ctx := network.NewClient(nets.URL, http.DefaultClient, c.Admin(t)), t.Context()
	testenv.Until(t, "the agent is alive", func() error {
		list, err := client.Agents(ctx, url.Values{"host": {"cmp1"}})
		if err == nil && (len(list) != 1 || !list[0].Alive) {
			err = fmt.Errorf("there are %+v", list)
		}
		return err
	})
	lan, err := client.CreateNetwork(ctx, map[string]any{"provider:network_type": "vlan",
		"provider:physical_network": "physnet0"})
	if err != nil {
		t.Fatal(err)
	}
	still, err := client.CreatePort(ctx, map[string]any{"network_id": lan.ID, "name": "still"})
	if err != nil {
		t.Fatal(err)
	}
	watched := watch(t, c, program, "port")
	printed := func(id string, want ...string) {
		t.Helper()
		testenv.Until(t, fmt.Sprintf("berth watch prints %q", want), func() error {
			got := []string{}
			for _, e := range watched(id) {
				got = append(got, strings.TrimSpace(strings.Join([]string{e.Action, e.Kind, e.Object.Name, e.Object.VIF,
					e.Object.Host}, " ")))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Errorf("it has printed %q", got)
			}
			return nil
		})
	}
	const unbound, bound = "port moved unbound", "port moved ovs cmp1"
	port, err := client.CreatePort(ctx, map[string]any{"network_id": lan.ID, "name": "moved"})
	if err != nil {
		t.Fatal(err)
	}
	printed(port.ID, "created "+unbound)
	if _, err := client.UpdatePort(ctx, port.ID, map[string]any{"device_id": "s", "device_owner": "compute:nova",
		"binding:host_id": "cmp1"}); err != nil {
		t.Fatal(err)
	}
	printed(port.ID, "created "+unbound, "changed "+bound)
	if err := client.DeletePort(ctx, port.ID); err != nil {
		t.Fatal(err)
	}
	printed(port.ID, "created "+unbound, "changed "+bound, "deleted "+bound)
	next, err := client.CreatePort(ctx, map[string]any{"network_id": lan.ID, "name": "next"})
	if err != nil {
		t.Fatal(err)
	}
	printed(next.ID, "created port next unbound") // of a later read, in which the deleted port is not printed again
	printed(port.ID, "created "+unbound, "changed "+bound, "deleted "+bound)
	printed(still.ID, "state port still unbound")
}

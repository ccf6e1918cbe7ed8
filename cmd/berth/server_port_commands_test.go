package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// A server is created with a port and a network by name, gets a port on a VF, and loses its ports again: interfaces,
// devices and ports follow.
func TestServerPortCommands(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	f := newPortFleet(t, "cmp1")
	f.plainFlavor()
	ctx, client := t.Context(), f.network.network()
	name := func(port, name string) string {
		_, err := client.UpdatePort(ctx, port, map[string]any{"name": name})
		must(t, err)
		return port
	}
	run := func(status int, want string, args ...string) string {
		t.Helper()
		return f.run(status, want, append(args, "--network-url", f.network.urls["network"])...)
	}
	first, second := name(f.port(1000).ID, "first"), name(f.port(2000).ID, "second")
	run(1, "no network has the id or the name", "server", "create", "web", "--flavor", "plain", "--network", "nope")
	run(0, "ACTIVE", "server", "create", "web", "--flavor", "plain", "--port", "first", "--wait")
	server, err := f.compute.compute().Server(ctx, "web")
	must(t, err)
	f.bound(server.ID, first)
	run(0, "addresses", "server", "show", "web")

	run(0, "attached", "server", "add", "port", "web", "second", "--wait")
	list, err := f.compute.compute().Interfaces(ctx, server.ID)
	if err != nil || len(list) != 2 || list[0].Port != first || list[1].Port != second {
		t.Fatalf("%+v %v", list, err)
	}
	run(1, "Port "+second+" is still in use", "server", "add", "port", "web", "second")
	out := run(0, "detached", "server", "remove", "port", "web", "first", "--wait", "-o", "json")
	var results []struct{ Port, Result string }
	if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != 1 || results[0].Port != first {
		t.Errorf("%s %v", out, err)
	}
	if p, err := client.Port(ctx, first); err != nil || p.Device != "" || p.Host != "" {
		t.Errorf("the removed port: %+v %v", p, err)
	}
	run(1, "server web has no port first", "server", "remove", "port", "web", "first")
	run(0, "detached", "server", "remove", "network", "web", f.net, "--wait")
	eventually(t, "no VF is held", func() (bool, error) {
		held := f.held("cmp1", server.ID)
		return held == "", fmt.Errorf("held: %s", held)
	})
	if out := run(0, "", "server", "show", "web"); strings.Contains(out, "addresses") {
		t.Errorf("a server without ports has addresses:\n%s", out)
	}
	f.delete(server)
}

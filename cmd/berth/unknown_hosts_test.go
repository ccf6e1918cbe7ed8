package main

import (
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// Every command with a host name refuses an unknown host, suggests similar names, and refuses an invalid name. A host
// of a refused name that joins later is alive.
func TestCommandsWithUnknownHosts(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	d := up(t, conf(t, machine(t, 1, 1)), t.TempDir())
	urls := []string{"--placement-url", d.urls["placement"], "--compute-url", d.urls["compute"]}
	run := func(args ...string) (stdout, stderr string, status int) {
		t.Helper()
		return output(t, append(args, urls...)...)
	}
	for _, args := range [][]string{{"flavor", "create", "f", "--ram", "64"}, {"server", "create", "s", "--flavor", "f",
		"--wait"}} {
		if stdout, stderr, status := run(args...); status != 0 {
			t.Fatal(stdout, stderr)
		}
	}
	for name, want := range map[string]string{"cmp2": "; did you mean cmp1?", "../../etc": "is not a valid host name"} {
		for _, args := range [][]string{
			{"host", "down", name, "--force"},
			{"host", "up", name},
			{"host", "forget", name},
			{"device", "clean", name, "0000:10:00.1"},
			{"device", "show", name, "0000:10:00.1"},
			{"device", "list", "--host", name},
			{"server", "evacuate", "--from", name},
			{"server", "evacuate", "s", "--host", name},
			{"server", "migrate", "s", "--host", name},
			{"server", "migrate", "s", "--live", "--host", name},
		} {
			stdout, stderr, status := run(args...)
			claimsNothing := stdout == "" || strings.Contains(stdout, "failed") // commands on servers list their results
			if status != statusFailed || !claimsNothing || !strings.Contains(stderr, want) {
				t.Errorf("berth %s: status %d\n%s%s", strings.Join(args, " "), status, stdout, stderr)
			}
		}
	}
	second := conf(t, machine(t, 1, 1), "[DEFAULT]", "host = cmp2")
	start(t, nil, append([]string{"agent", "--config-file", second, "--data-dir", t.TempDir()}, urls...)...)
	eventually(t, "cmp2 has reported", func() (bool, error) {
		hosts, err := d.hosts().Hosts(t.Context())
		if len(hosts) == 2 && (hosts[1].Host != "cmp2" || hosts[1].Dead) {
			t.Errorf("%+v", hosts[1])
		}
		return len(hosts) == 2, err
	})
}

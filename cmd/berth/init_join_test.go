package main

import (
	"os"
	"strings"
	"testing"

	"github.com/openberth/berth/internal/testenv"
)

// A second machine joins with a token, which works once, and has servers. An interrupted join is completed without the
// token; both machines are undone.
func TestInitJoin(t *testing.T) {
	t.Parallel()
	first, second := newInitMachine(t), newInitMachine(t)
	_, port, _ := strings.Cut(testenv.FreeAddress(t), ":")
	must(t, os.WriteFile(first.path("disk"), []byte("driver: fake\nhost: first\n"), 0o600))
	first.init("--file", first.path("disk"), "--listen", "127.0.0.2:"+port)
	out := first.works("init", "token", "--data-dir", first.path("data"))
	fields := strings.Fields(out[strings.Index(out, "berth init --join"):])
	url, token := fields[3], fields[4]
	must(t, os.WriteFile(second.path("init.yaml"), []byte("driver: fake\nhost: second\n"), 0o600))
	join := func(more ...string) (string, bool) {
		return second.run(append(append([]string{"init", "--file", second.path("init.yaml"), "--join", url}, more...),
			second.args...)...)
	}
	other := "A"
	if token[20:21] == other {
		other = "B"
	}
	if out, ok := join(token[:20] + other + token[21:]); ok || !strings.Contains(out, "not of the authority") {
		t.Errorf("a token of another authority: %s", out)
	}
	if out, ok := join(); ok || !strings.Contains(out, "the token is missing") {
		t.Errorf("no token: %s", out)
	}
	out, ok := join(token)
	if !ok {
		log, _ := os.ReadFile(second.path("data/berth.log"))
		t.Fatalf("%s\n%s", out, log)
	}
	want(t, out, "This machine, second, is a host of https://127.0.0.2:"+port)
	if out, ok := join(); !ok || !strings.Contains(out, "nothing to do") {
		t.Errorf("a second run: %s", out)
	}
	third := newInitMachine(t)
	if out, ok := third.run(append([]string{"init", "--driver", "fake", "--join", url, token}, third.args...)...); ok ||
		!strings.Contains(out, "was used") {
		t.Errorf("a used token: %s", out)
	}
	want(t, first.works("host", "list", "--os-cloud", "berth-admin"), "second  up, FAKE")
	must(t, os.WriteFile(first.path("disk"), make([]byte, 1<<20), 0o600))
	first.works("image", "add", first.path("disk"), "--name", "debian")
	first.works("host", "disable", "first", "--reason", "test", "--os-cloud", "berth-admin")
	first.works("launch", "a", "--image", "debian")
	want(t, first.works("server", "list", "--os-cloud", "berth-admin"), "second")
	for part, m := range map[string]*initMachine{"this host has ": second, "hosts of the cloud (second)": first} {
		if out, ok := m.run(append([]string{"init", "--undo"}, m.args...)...); ok || !strings.Contains(out, part) {
			t.Errorf("undo: %s; want %s", out, part)
		}
	}
	first.works("server", "delete", "a", "--wait")
	must(t, os.Remove(second.path("init.yaml")))
	want(t, second.init("--undo"), "removed  ")
	second.isEmpty()
	first.init("--undo", "--force")
	first.isEmpty()
}

package coexist

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openberth/berth/internal/bench"
)

// followGuide executes docs/moving-placement-to-berth.md literally: its sh blocks, in order, in a directory with a
// placement.conf, beside OpenStack's Placement.
func (s *site) followGuide(t *testing.T) {
	fill(t, s.servers[0])
	text, err := os.ReadFile("../../docs/moving-placement-to-berth.md")
	if err != nil {
		t.Fatal(err)
	}
	script := "set -eux\n"
	for _, block := range regexp.MustCompile("(?s)( *)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		script += strings.ReplaceAll(block[2], "\n"+block[1], "\n")
	}
	const port = "127.0.0.1:8779"
	if strings.Count(script, "berth ") < 6 || !strings.Contains(script, port) {
		t.Fatalf("the guide has no commands: %s", script)
	}
	dir := t.TempDir()
	if _, err := bench.Configure(dir, s.url); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script, port, freeAddr(t)))
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"),
		"ORIGINAL=http://"+s.servers[0].Addr)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"422ece571366", `"providers":3`, "VCPU", "Success"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output of the guide's commands does not contain %q:\n%s", want, out)
		}
	}
}

// freeAddr returns an address on which no server listens.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

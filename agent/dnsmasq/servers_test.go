package dnsmasq

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/openberth/berth/agent/bridgeplan"
	"github.com/openberth/berth/internal/testenv"
)

// freePort returns a UDP port of the loopback that nothing has.
func freePort(t *testing.T) int {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).Port
}

// answers returns the address that a DNS server of the loopback has for a name; empty: none.
func answers(t *testing.T, port int, name string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp4", fmt.Sprintf("127.0.0.1:%d", port))
	}}
	found, err := r.LookupHost(ctx, name+".")
	if err != nil || len(found) != 1 {
		return ""
	}
	return found[0]
}

// awaitAnswer waits for an answer: a process reads its files some time after the signal.
func awaitAnswer(t *testing.T, port int, name, want string) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("the address of %s is %q", name, want), func() (bool, error) {
		got := answers(t, port, name)
		return got == want, fmt.Errorf("it is %q", got)
	})
}

// TestKilledBeforeTheSignal repeats what an agent did that was killed, or failed, after it had written files and before
// the process had read them: the process must not serve the old ones for good.
func TestKilledBeforeTheSignal(t *testing.T) {
	testenv.Need(t, "dnsmasq")
	top := t.TempDir()
	for _, dir := range []string{top, filepath.Dir(top)} { // the process reads as its own user
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s, port := Servers{filepath.Join(top, "networks", "cmp1")}, freePort(t)
	w := bridgeplan.DHCP{Network: "n1", Names: "10.0.0.1 one.test\n", Config: fmt.Sprintf("no-hosts\nno-resolv\n"+
		"listen-address=127.0.0.1\nbind-interfaces\nport=%d\npid-file=%%DIR%%/pid\naddn-hosts=%%DIR%%/names\n", port)}
	apply := func(all ...bridgeplan.DHCP) {
		t.Helper()
		if failed := s.Apply(t.Context(), all); len(failed) != 0 {
			t.Fatalf("%v", failed)
		}
	}
	t.Cleanup(func() { s.Apply(context.Background(), nil) })
	apply(w)
	awaitAnswer(t, port, "one.test", "10.0.0.1")
	first := s.pid("n1")

	w.Names = "10.0.0.2 one.test\n"
	apply(w)
	awaitAnswer(t, port, "one.test", "10.0.0.2")
	apply(w)
	if s.pid("n1") != first {
		t.Error("the process was started again for a changed name")
	}

	for i, change := range []func(){
		func() { w.Names = "10.0.0.3 one.test\n" },
		func() { w.Config += "address=/two.test/10.0.0.3\n" },
	} {
		change()
		if changed, _, err := s.write(w); !changed || err != nil {
			t.Fatalf("%v %v", changed, err)
		}
		if err := os.Chmod(filepath.Join(s.dir("n1"), "names"), 0o600); err != nil {
			t.Fatal(err) // as if it was killed before the mode was set
		}
		apply(w)
		awaitAnswer(t, port, []string{"one.test", "two.test"}[i], "10.0.0.3")
		awaitAnswer(t, port, "one.test", "10.0.0.3")
		again := s.pid("n1")
		apply(w)
		if s.pid("n1") != again {
			t.Error("the process is started again each time")
		}
	}
}

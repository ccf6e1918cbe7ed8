package clienttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/testenv"
)

// Run starts a server that ends with the test, and waits until it responds to HTTP on addr, unless addr is empty.
func Run(t testing.TB, log, addr string, args ...string) *bench.Process {
	t.Helper()
	p, err := bench.Start(log, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", log, Tail(log))
		}
	})
	if addr == "" {
		return p
	}
	testenv.Until(t, args[0]+" responds", func() error {
		response, err := http.Get("http://" + addr + "/")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, Tail(log))
		}
		return response.Body.Close()
	})
	return p
}

// Free returns an address on loopback on which no server listens now. The port is below those that Linux gives to
// connections, one of which could have it before a server that starts slowly.
func Free(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(20000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port between 12000 and 32000 was found")
	return ""
}

// Write writes a file that only its owner can read.
func Write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Tail returns the end of a log.
func Tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

package bench

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// servedFile is the variable that makes the program of the benchmarks serve a file from its memory.
const servedFile = "BERTH_BENCH_SERVED_FILE"

// serveFile answers all requests with the content of a file, as fast as Go's HTTP server can.
func serveFile(path string) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("bench: http://" + l.Addr().String())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body) // an error means that the client has gone
	}))
}

// serveBytes starts a process that answers all requests with these bytes, until the benchmark ends.
func serveBytes(b *testing.B, body []byte) *Process {
	b.Helper()
	dir := place(b)
	file := filepath.Join(dir, "body")
	must(b, os.WriteFile(file, body, 0o600))
	program, err := os.Executable()
	must(b, err)
	p, err := Start(filepath.Join(dir, "serve.log"), "env", servedFile+"="+file, program)
	must(b, err)
	b.Cleanup(func() { must(b, p.Stop()) })
	p.Addr, err = p.awaitLine("bench: http://", time.Minute)
	must(b, err)
	return p
}

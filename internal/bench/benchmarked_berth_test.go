package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/httpserver"
	"github.com/openberth/berth/internal/settings"
)

var (
	program   = flag.String("berth", "", "path of a built berth; default: build it from this tree")
	inProcess = flag.Bool("inprocess", false, "serve from the benchmark's own process, so that -cpuprofile includes the "+
		"server; memory is then not measured")
	hosts           = flag.Int("hosts", 10000, "number of hosts of the fleet")
	nestedTrees     = flag.Int("trees", 1000, "number of nested trees that are queried, and of hosts with ports")
	halls           = flag.Int("halls", 400, "number of hosts from which clients claim")
	clientsOnly     = flag.Int("clients", 0, "number of clients that write or claim; 0: one run for each usual number")
	agents          = flag.Int("agents", 100, "number of agents that build servers")
	scheduleHosts   = flag.Int("schedule-hosts", 1000, "number of hosts on which compute places servers")
	existingServers = flag.Int("existing-servers", 0, "number of servers that exist before others are created")
	pollPause       = flag.Duration("poll", 5*time.Millisecond, "pause between two requests of a client for its server")
	idleAgents      = flag.Int("idle-agents", 10_000, "number of agents that are connected to one compute")
	idleTLS         = flag.Bool("idle-tls", false, "the idle agents use TLS")
	listedServers   = flag.Int("listed-servers", 100_000, "number of servers of which pages are listed")
)

// scratch is the directory of the databases, on the disk: commits of SQLite must be durable.
var scratch string

func TestMain(m *testing.M) {
	if file := os.Getenv(servedFile); file != "" {
		fmt.Fprintln(os.Stderr, "bench:", serveFile(file))
		os.Exit(1)
	}
	flag.Parse()
	code := 1
	err := func() (err error) {
		if scratch, err = os.MkdirTemp("", "berth-bench"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
		code = m.Run()
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		code = 1
	}
	os.Exit(code)
}

// built returns the berth to measure.
var built = sync.OnceValues(func() (string, error) {
	if *program != "" {
		return *program, nil
	}
	return Build(scratch)
})

// place creates the directory of one server.
func place(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(scratch, "server")
	must(tb, err)
	return dir
}

// must fails the test for an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// serve starts Berth on a database until the benchmark ends.
func serve(tb testing.TB, dir, database string) *Process {
	tb.Helper()
	if *inProcess {
		return serveHere(tb, database)
	}
	berth, err := built()
	must(tb, err)
	p, err := StartBerth(berth, dir, database)
	must(tb, err)
	tb.Cleanup(func() { must(tb, p.Stop()) })
	return p
}

// serveHere serves from this process.
func serveHere(tb testing.TB, database string) *Process {
	tb.Helper()
	began := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	conf, err := settings.Read(log)
	must(tb, err)
	service, err := app.OpenPlacement(ctx, database, conf, "noauth2", log)
	must(tb, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(tb, err)
	ended := make(chan error, 1)
	go func() {
		ended <- httpserver.Serve(ctx, l, service.Handler, httpserver.ConnLimits{Total: 4096}, nil, log)
	}()
	tb.Cleanup(func() {
		stop()
		must(tb, errors.Join(<-ended, service.Close()))
	})
	return &Process{Addr: l.Addr().String(), Ready: time.Since(began), PID: os.Getpid()}
}

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/settings"
)

// startAgents runs agents with the fake hypervisor and without devices until the end of the benchmark. They run in the
// benchmark's process and connect over TCP; each has its own journal on the disk.
func startAgents(b *testing.B, placement, compute string, count int) {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var mu sync.Mutex
	var failed error
	b.Cleanup(func() {
		stop()
		running.Wait()
		must(b, failed)
	})
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	machine := filepath.Join(place(b), "machine.txtar")
	must(b, os.WriteFile(machine, []byte("-- devices/system/node/node0/cpulist --\n0-63\n"), 0o600))
	for n := range count {
		dir := place(b)
		file := filepath.Join(dir, "agent.conf")
		must(b, os.WriteFile(file, fmt.Appendf(nil, "[DEFAULT]\nhost = agent-%03d\ncompute_driver = fake.FakeDriver\n"+
			"[oslo_concurrency]\nlock_path = %s\n"+
			"[berth]\nfake_vcpus = 100000\nfake_memory_mb = 100000000\nfake_disk_gb = 1000000\n", n, dir), 0o600))
		conf, err := settings.Read(log, file)
		must(b, err)
		services, err := app.TCPEndpoints(conf, "http://"+placement, "http://"+compute, rest.TLSFiles{})
		must(b, err)
		agent, err := app.NewAgent(conf, filepath.Join(dir, app.AgentDir), services, log)
		must(b, err)
		running.Go(func() {
			if err := agent.Run(ctx); err != nil && ctx.Err() == nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
		})
	}
	awaitHosts(b, compute, count)
}

// awaitHosts waits until this many hosts have reported.
func awaitHosts(b *testing.B, compute string, count int) {
	b.Helper()
	c := Dial(compute)
	defer c.Close()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		text, err := c.Want(200, "GET", "/berth/v1/hosts", nil)
		must(b, err)
		var answer struct {
			Hosts []struct{ Connected bool } `json:"hosts"`
		}
		must(b, json.Unmarshal(text, &answer))
		connected := 0
		for _, h := range answer.Hosts {
			if h.Connected {
				connected++
			}
		}
		if connected == count {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%d of %d agents are connected", connected, count)
		}
	}
}

// BenchmarkServersToActive creates servers with 32 clients on 100 agents; an operation ends when the server is ACTIVE.
func BenchmarkServersToActive(b *testing.B) {
	dir := place(b)
	f := &computeFleet{}
	f.placement = serve(b, dir, SQLite(dir))
	f.compute = serveCompute(b, f.placement.Addr)
	startAgents(b, f.placement.Addr, f.compute.Addr, *agents)
	f.createFlavor(b, flavorPlain, 1, `{}`)
	f.createExisting(b, func(s createdServer) bool { return s.Status == "ACTIVE" })
	for _, part := range []string{"first", "second"} {
		b.Run(fmt.Sprintf("agents=%d/%s", *agents, part), func(b *testing.B) {
			placement, err := f.placement.Worked()
			must(b, err)
			load(b, f.compute, 32, 1, "servers", f.createUntil(flavorPlain,
				func(s createdServer) bool { return s.Status == "ACTIVE" }))
			after, err := f.placement.Worked()
			must(b, err)
			b.ReportMetric(float64((after-placement).Microseconds())/float64(b.N), "placement-cpu-µs/op")
		})
	}
}

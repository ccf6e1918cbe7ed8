package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/internal/app"
	"github.com/openberth/berth/internal/httpserver"
	"github.com/openberth/berth/internal/settings"
	"github.com/openberth/berth/sqldb"
)

// computeFleet is Placement, compute, and hosts with 24 devices whose reports come from the benchmark. No agent builds
// guests, so a server that has claimed its allocation stays in BUILD.
type computeFleet struct {
	placement, compute *Process
	reports            []host.Report
}

const (
	devicesOfHost = 24
	flavorPlain   = "plain"
	flavorDevice  = "device"
)

const computeOptions = `
[pci]
alias = {"name": "accelerator", "resource_class": "CUSTOM_ACCELERATOR"}
alias = {"name": "gpu", "resource_class": "CUSTOM_GPU", "numa_policy": "required"}
alias = {"name": "vf", "resource_class": "CUSTOM_VF", "device_type": "type-VF", "numa_policy": "required"}
alias = {"name": "gpu_nic", "members": {"gpu": 1, "vf": 1}, "match": "pcie_root"}
[filter_scheduler]
pci_in_placement = true
`

// startComputeFleet loads hosts with 24 accelerators and starts the services.
func startComputeFleet(b *testing.B, hosts int) *computeFleet {
	b.Helper()
	f := startFleetOf(b, hosts, []string{"CUSTOM_ACCELERATOR"}, (*fleet).accelerators)
	f.createFlavor(b, flavorPlain, 1, `{}`)
	f.createFlavor(b, flavorDevice, 1, `{"pci_passthrough:alias": "accelerator:1"}`)
	return f
}

// startFleetOf loads hosts that write writes, with these custom classes, and starts the services.
func startFleetOf(b *testing.B, hosts int, classes []string,
	write func(f *fleet, n int) (host.Report, error)) *computeFleet {
	b.Helper()
	dir := place(b)
	must(b, standardNames(b, SQLite(dir)))
	f := &computeFleet{}
	var err error
	f.reports, err = loadReported(b, SQLite(dir), hosts, classes, write)
	must(b, err)
	f.placement = serve(b, dir, SQLite(dir))
	f.compute = serveCompute(b, f.placement.Addr)
	f.report(b)
	return f
}

// createFlavor creates a flavor with these extra specs.
func (f *computeFleet) createFlavor(b *testing.B, name string, cpus int, specs string) {
	b.Helper()
	c := Dial(f.compute.Addr)
	defer c.Close()
	body := fmt.Sprintf(`{"flavor":{"id":%q,"name":%q,"vcpus":%d,"ram":512,"disk":1}}`, name, name, cpus)
	_, err := c.Want(200, "POST", "/v2.1/flavors", []byte(body))
	must(b, err)
	if specs != "{}" {
		_, err = c.Want(200, "POST", "/v2.1/flavors/"+name+"/os-extra_specs", []byte(`{"extra_specs":`+specs+`}`))
		must(b, err)
	}
}

// serveCompute starts compute until the benchmark ends.
func serveCompute(b *testing.B, placement string) *Process {
	b.Helper()
	return serveComputeIn(b, place(b), placement, computeOptions)
}

// serveComputeIn starts compute with options on the database in a directory until the benchmark ends.
func serveComputeIn(b *testing.B, dir, placement, options string) *Process {
	b.Helper()
	if !*inProcess {
		berth, err := built()
		must(b, err)
		p, err := StartCompute(berth, dir, placement, options)
		must(b, err)
		b.Cleanup(func() { must(b, p.Stop()) })
		return p
	}
	return serveWithin(b, dir, options, func(ctx context.Context, conf settings.Settings, client *api.Client,
		log *slog.Logger) (*app.Service, error) {
		return app.OpenCompute(ctx, "sqlite:///"+filepath.Join(dir, "compute.db"), client, conf, log)
	}, placement)
}

// serveWithin serves from this process with a configuration file of options, until the benchmark ends.
func serveWithin(b *testing.B, dir, options string, open func(context.Context, settings.Settings, *api.Client,
	*slog.Logger) (*app.Service, error), placement string) *Process {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	file := filepath.Join(dir, "berth.conf")
	must(b, os.WriteFile(file, []byte(options), 0o600))
	conf, err := settings.Read(log, file)
	must(b, err)
	client, err := app.PlacementOverTCP(conf, "http://"+placement, rest.TLSFiles{})
	must(b, err)
	service, err := open(ctx, conf, client, log)
	must(b, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	ended := make(chan error, 1)
	go func() {
		ended <- httpserver.Serve(ctx, l, service.Handler, httpserver.ConnLimits{Total: 4096}, nil, log)
	}()
	b.Cleanup(func() {
		stop()
		must(b, errors.Join(<-ended, service.Close()))
	})
	return &Process{Addr: l.Addr().String(), PID: os.Getpid()}
}

// report sends the reports of all hosts, and signs of life until the end of the benchmark. These say that each agent
// has followed its assignments, also those that are still to come: compute would move servers away from others.
func (f *computeFleet) report(b *testing.B) {
	b.Helper()
	each := func(send func(c *Conn, r host.Report) error) error {
		_, err := Run(f.compute.Addr, 4, Times(len(f.reports)), func(c *Conn, n int) error {
			return send(c, f.reports[n])
		})
		return err
	}
	must(b, each(func(c *Conn, r host.Report) error {
		body, err := json.Marshal(r)
		if err == nil {
			_, err = c.Want(204, "PUT", "/berth/v1/hosts/"+r.Host, body)
		}
		return err
	}))
	at, err := f.position(b.Context())
	must(b, err)
	at.Revision = 1 << 40
	repeat(b, host.AliveInterval, func() error {
		return each(func(c *Conn, r host.Report) error {
			body, err := json.Marshal(host.Alive{Instance: r.Instance, Start: r.Start, Position: at})
			if err == nil {
				_, err = c.Want(204, "PUT", "/berth/v1/hosts/"+r.Host+"/alive", body)
			}
			return err
		})
	})
}

// position returns the position of the assignments of the first host.
func (f *computeFleet) position(ctx context.Context) (host.Position, error) {
	q := url.Values{"instance": {f.reports[0].Instance}, "start": {f.reports[0].Start}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.compute.Addr+"/berth/v1/hosts/"+
		f.reports[0].Host+"/assignments?"+q.Encode(), nil)
	if err != nil {
		return host.Position{}, err
	}
	req.Header.Set("X-Auth-Token", "admin")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return host.Position{}, err
	}
	defer resp.Body.Close() // ends the stream
	if resp.StatusCode != http.StatusOK {
		return host.Position{}, fmt.Errorf("GET %s: %s", req.URL, resp.Status)
	}
	var line host.Assignments
	err = json.NewDecoder(resp.Body).Decode(&line)
	return line.Position, err
}

// repeat calls send now and after each pause until the end of the benchmark.
func repeat(b *testing.B, pause time.Duration, send func() error) {
	b.Helper()
	must(b, send())
	ended, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for {
			select {
			case <-ended:
				failed <- err
				return
			case <-time.After(pause):
				err = errors.Join(err, send())
			}
		}
	}()
	b.Cleanup(func() {
		close(ended)
		must(b, <-failed)
	})
}

// loadReported writes hosts with devices into Placement's database, and returns the reports of their agents.
func loadReported(b *testing.B, database string, hosts int, classes []string,
	write func(f *fleet, n int) (host.Report, error)) (reports []host.Report, err error) {
	db, err := sqldb.Open(b.Context(), database)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.Write(b.Context(), func(tx *sqldb.Tx) error {
		reports = reports[:0]
		f := &fleet{ctx: b.Context(), tx: tx, next: 1}
		for i, class := range classes {
			if _, err := tx.Exec(b.Context(), "INSERT INTO resource_classes (created_at, id, name) VALUES (?, ?, ?)", moment,
				10000+i, class); err != nil {
				return err
			}
		}
		if err := f.begin(); err != nil {
			return err
		}
		for n := range hosts {
			report, err := write(f, n)
			if err != nil {
				return err
			}
			reports = append(reports, report)
		}
		return f.flush()
	})
	return reports, err
}

// accelerators writes one host and returns the report of its agent.
func (f *fleet) accelerators(n int) (host.Report, error) {
	r := host.Report{Host: fmt.Sprintf("cmp-%05d", n), Instance: uuid.NewString(), Start: uuid.NewString(),
		InPlace: true, Conditions: []condition.Condition{}}
	id := f.next
	var err error
	if r.Provider, err = f.provider(r.Host, id, nil, "", map[string]int{"VCPU": 256, "MEMORY_MB": 1 << 20,
		"DISK_GB": 8000}, 0, f.common...); err != nil {
		return r, err
	}
	for i := range devicesOfHost {
		d := host.Device{Host: r.Host, Address: fmt.Sprintf("0000:%02x:00.0", i+1), VendorID: "8086", ProductID: "1515",
			Type: "type-PCI", NUMANode: i % 2, IOMMUGroup: i, ResourceClass: "CUSTOM_ACCELERATOR", Traits: []string{},
			State: "available"}
		if d.Provider, err = f.provider(r.Host+"_"+d.Address, id, id, "", map[string]int{"CUSTOM_ACCELERATOR": 1}, 0,
			f.traits["COMPUTE_MANAGED_PCI_DEVICE"]); err != nil {
			return r, err
		}
		r.Devices = append(r.Devices, d)
	}
	return r, nil
}

// createdServer is what the Compute API shows of a server.
type createdServer struct {
	ID, Status string
	Task       string `json:"OS-EXT-STS:task_state"`
}

// isClaimed reports whether the server has claimed its allocation; its agent builds it then.
func isClaimed(s createdServer) bool { return s.Task == "spawning" }

// isRefused reports whether the server fits nowhere.
func isRefused(s createdServer) bool { return s.Status == "ERROR" }

// createUntil creates a server, and waits until done returns true. Clients that ask all the time would cost the server
// more than what is measured, and clients that ask seldom would measure their own pauses: with 16 clients that see the
// end 10 ms late on average, 40 ms for a server mean at most 400 servers a second. So a client first waits half as long
// as other servers took, and then asks each time after the pause of the flag poll.
func (f *computeFleet) createUntil(flavor string, done func(createdServer) bool) func(c *Conn, n int) error {
	return f.createAndAsk(flavor, done, *pollPause)
}

// createAndAsk is createUntil with another time between two requests of a client.
func (f *computeFleet) createAndAsk(flavor string, done func(createdServer) bool, every time.Duration) func(c *Conn,
	n int) error {
	var usual usualTime
	return func(c *Conn, n int) error {
		body := fmt.Appendf(nil, `{"server":{"name":"s%d","flavorRef":%q,"imageRef":""}}`, n, flavor)
		text, err := c.Want(202, "POST", "/v2.1/servers", body)
		if err != nil {
			return err
		}
		var made struct{ Server createdServer }
		if err := json.Unmarshal(text, &made); err != nil {
			return err
		}
		path, began := "/v2.1/servers/"+made.Server.ID, time.Now()
		usual.sleepHalf()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(every) {
			if text, err = c.Want(200, "GET", path, nil); err != nil {
				return err
			}
			made.Server.Task = ""
			if err := json.Unmarshal(text, &made); err != nil {
				return err
			}
			if done(made.Server) {
				usual.add(time.Since(began))
				return nil
			}
			if made.Server.Status == "ERROR" {
				return fmt.Errorf("server %s: %s", path, text)
			}
		}
		return fmt.Errorf("server %s is not done after a minute: %s", path, text)
	}
}

// usualTime is the time from a POST until what it asks for is done, weighted towards the latest ones.
type usualTime struct{ nanoseconds atomic.Int64 }

func (u *usualTime) sleepHalf() { time.Sleep(time.Duration(u.nanoseconds.Load()) / 2) }

func (u *usualTime) add(d time.Duration) {
	u.nanoseconds.Store((7*u.nanoseconds.Load() + int64(d)) / 8)
}

// createExisting creates the servers that exist before the measurement.
func (f *computeFleet) createExisting(b *testing.B, done func(createdServer) bool) {
	b.Helper()
	_, err := Run(f.compute.Addr, 16, Times(*existingServers), f.createUntil(flavorPlain, done))
	must(b, err)
}

// BenchmarkSchedule creates servers with 16 clients on hosts with 24 devices; an operation ends when the server's
// allocation is claimed.
func BenchmarkSchedule(b *testing.B) {
	f := startComputeFleet(b, *scheduleHosts)
	f.createExisting(b, isClaimed)
	for _, flavor := range []string{flavorPlain, flavorDevice} {
		b.Run("hosts="+fmt.Sprint(*scheduleHosts)+"/flavor="+flavor, func(b *testing.B) {
			before, err := f.placement.Worked()
			must(b, err)
			load(b, f.compute, 16, 1, "servers", f.createUntil(flavor, isClaimed))
			after, err := f.placement.Worked()
			must(b, err)
			b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "placement-cpu-µs/op")
		})
	}
}

// BenchmarkOneCreate creates 20 servers a second when as many servers as the flag says exist already; an operation ends
// when the server's allocation is claimed. A server that is due while all 16 clients are busy is created later.
func BenchmarkOneCreate(b *testing.B) {
	f := startComputeFleet(b, *scheduleHosts)
	f.createExisting(b, isClaimed)
	for _, flavor := range []string{flavorPlain, flavorDevice} {
		name := fmt.Sprintf("hosts=%d/servers=%d/flavor=%s", *scheduleHosts, *existingServers, flavor)
		b.Run(name, func(b *testing.B) { f.createSteadily(b, flavor) })
	}
}

// createSteadily creates 20 servers a second.
func (f *computeFleet) createSteadily(b *testing.B, flavor string) {
	b.Helper()
	due := time.NewTicker(time.Second / 20)
	defer due.Stop()
	more := Times(b.N)
	create := f.createAndAsk(flavor, isClaimed, 2*time.Millisecond)
	b.ResetTimer()
	r, err := Run(f.compute.Addr, 16, func() bool { <-due.C; return more() }, create)
	b.StopTimer()
	must(b, err)
	b.ReportMetric(r.PerSecond(), "servers/s")
	b.ReportMetric(float64(r.Quantile(0.5))/1e6, "p50-ms")
	b.ReportMetric(float64(r.Quantile(0.99))/1e6, "p99-ms")
}

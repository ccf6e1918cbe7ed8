package bench

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/host"
	"github.com/openberth/berth/condition"
	"github.com/openberth/berth/internal/testcert"
)

const (
	devicesOfIdleAgent = 4
	agentsOfAddress    = 100              // source addresses are 127.1.0.1, 127.1.0.2, …
	reconnectFirst     = time.Second      // the first wait of an agent whose stream has ended; it doubles
	reconnectLast      = 15 * time.Second // the longest wait
)

// idleAgent is a client of the host API that behaves as an agent on which nothing changes: it requests admission, sends
// a report every minute and a sign of life every ten seconds on a connection that it keeps, and reads a stream of
// assignments on another one. It reconnects when the stream ends or is silent, and reports when compute answers a sign
// of life with 404, because it has restarted.
type idleAgent struct {
	report host.Report
	addr   string // of compute
	counts *agentCounts

	admitted bool
	mu       sync.Mutex // of requests
	requests *Conn      // for all but the stream
}

// agentCounts are counted over all agents.
type agentCounts struct {
	connected   atomic.Int64 // streams of which a line was read
	lines       atomic.Int64
	reports     atomic.Int64
	signs       atomic.Int64 // of life
	ends        atomic.Int64 // streams that ended
	unconnected atomic.Int64 // failed attempts to connect
	failure     atomic.Value // the error of one of them
}

func (c *agentCounts) failed(err error) {
	if err != nil {
		c.unconnected.Add(1)
		c.failure.Store(err.Error())
	}
}

// newIdleAgent returns the agent number n. Without client it does not use TLS.
func newIdleAgent(n int, addr string, client *tls.Config, counts *agentCounts) *idleAgent {
	name := fmt.Sprintf("agent-%05d", n)
	r := host.Report{Host: name, Instance: uuid.NewString(), Start: uuid.NewString(), LockID: uuid.NewString(),
		Provider: uuid.NewString(), InPlace: true, Conditions: []condition.Condition{}}
	for i := range devicesOfIdleAgent {
		r.Devices = append(r.Devices, host.Device{Host: name, Address: fmt.Sprintf("0000:%02x:00.0", i+1),
			VendorID: "8086", ProductID: "1515", Type: "type-PCI", NUMANode: 0, IOMMUGroup: i,
			ResourceClass: "CUSTOM_ACCELERATOR", Traits: []string{}, State: "available"})
	}
	group := n / agentsOfAddress
	from := &net.TCPAddr{IP: net.IPv4(127, 1, byte(group/250), byte(group%250+1))}
	return &idleAgent{report: r, addr: addr, counts: counts, requests: &Conn{Patience: 30 * time.Second, From: from,
		TLS: client, addr: addr, in: bufio.NewReaderSize(nil, 1024)}}
}

// send sends a request on the kept connection.
func (a *idleAgent) send(want int, method, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err = a.requests.Want(want, method, path, text)
	return err
}

// open opens the stream of assignments on a connection of its own, and returns its lines.
func (a *idleAgent) open(ctx context.Context) (net.Conn, *bufio.Reader, error) {
	conn, err := a.requests.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Auth-Token: admin\r\n\r\n", a.path(), a.addr)
	if err == nil {
		var resp *http.Response
		if resp, err = http.ReadResponse(bufio.NewReaderSize(conn, 1024), nil); err == nil {
			if resp.StatusCode == http.StatusOK {
				return conn, bufio.NewReaderSize(resp.Body, 1024), nil
			}
			text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
			err = fmt.Errorf("GET %s: %d %s", a.path(), resp.StatusCode, text)
		}
	}
	conn.Close()
	return nil, nil, err
}

// path returns the path of the stream of assignments.
func (a *idleAgent) path() string {
	q := url.Values{"instance": {a.report.Instance}, "start": {a.report.Start}, "lock_id": {a.report.LockID},
		"changes": {"1"}}
	return "/berth/v1/hosts/" + a.report.Host + "/assignments?" + q.Encode()
}

// sendReport sends the report.
func (a *idleAgent) sendReport() error {
	err := a.send(http.StatusNoContent, http.MethodPut, "/berth/v1/hosts/"+a.report.Host, a.report)
	if err == nil {
		a.counts.reports.Add(1)
	}
	return err
}

// sendAlive sends a sign of life.
func (a *idleAgent) sendAlive() error {
	err := a.send(http.StatusNoContent, http.MethodPut, "/berth/v1/hosts/"+a.report.Host+"/alive",
		host.Alive{Instance: a.report.Instance, Start: a.report.Start})
	if err == nil {
		a.counts.signs.Add(1)
	} else if strings.Contains(err.Error(), ": 404, ") {
		return a.sendReport()
	}
	return err
}

// admit requests admission, and sends the first report.
func (a *idleAgent) admit(ctx context.Context) error {
	conn, _, err := a.open(ctx)
	if err != nil {
		return err
	}
	conn.Close()
	return a.sendReport()
}

// connect reads the stream until it ends.
func (a *idleAgent) connect(ctx context.Context) error {
	if !a.admitted {
		if err := a.admit(ctx); err != nil {
			return err
		}
		a.admitted = true
	}
	conn, lines, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	for first := true; ; first = false {
		_ = conn.SetDeadline(time.Now().Add(3 * host.Heartbeat))
		if _, err := lines.ReadSlice('\n'); err != nil {
			if !first {
				a.counts.connected.Add(-1)
				a.counts.ends.Add(1)
			}
			a.counts.failure.Store(err.Error())
			return nil
		}
		a.counts.lines.Add(1)
		if first {
			a.counts.connected.Add(1)
		}
	}
}

// run connects again and again until ctx ends. Beside that it reports every minute and gives signs of life in between,
// as agents do when nothing changes.
func (a *idleAgent) run(ctx context.Context, all *sync.WaitGroup) {
	all.Go(func() {
		for n := 1; sleep(ctx, host.AliveInterval); n++ {
			if n%6 == 0 {
				a.counts.failed(a.sendReport())
			} else {
				a.counts.failed(a.sendAlive())
			}
		}
		a.requests.Close()
	})
	for wait := reconnectFirst; ; {
		began := time.Now()
		if err := a.connect(ctx); err != nil {
			a.counts.failed(err)
			wait = min(2*wait, reconnectLast)
		} else if time.Since(began) > reconnectLast {
			wait = reconnectFirst
		}
		if !sleep(ctx, wait/2+rand.N(wait/2)) {
			return
		}
	}
}

// sleep waits and returns true, or false when ctx has ended.
func sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// awaitConnected waits until this many streams are open, and returns how long that took.
func awaitConnected(b *testing.B, counts *agentCounts, want int, p *Process) time.Duration {
	b.Helper()
	began := time.Now()
	for int(counts.connected.Load()) < want {
		if time.Since(began) > 5*time.Minute {
			b.Fatalf("%d of %d agents are connected after five minutes, after %d failed attempts, such as %v: %s",
				counts.connected.Load(), want, counts.unconnected.Load(), counts.failure.Load(), p.tail())
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(began)
}

// BenchmarkIdleAgents connects agents to one compute, and measures its memory and processor time over a minute in which
// nothing changes, and the time from its restart after SIGKILL until all agents are connected and have reported again.
// It runs once.
func BenchmarkIdleAgents(b *testing.B) {
	if *inProcess {
		b.Skip("the memory of compute is measured, so it needs a process of its own")
	}
	var files syscall.Rlimit // Go has raised the soft limit
	must(b, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	if int(files.Cur) < *idleAgents+*idleAgents/2 {
		b.Fatalf("the limit of open files is %d; %d agents need half as many more than agents", files.Cur, *idleAgents)
	}
	placementDir, dir := place(b), place(b)
	placement := serve(b, placementDir, SQLite(placementDir))
	berth, err := built()
	must(b, err)
	options, client := computeOptions, (*tls.Config)(nil)
	if *idleTLS {
		ca := testcert.NewCA(b)
		cert := ca.Issue(b, testcert.Certificate{})
		options += fmt.Sprintf("[ssl]\ncert_file = %s\nkey_file = %s\n", cert.CertFile, cert.KeyFile)
		client = ca.Client()
		client.ServerName = "localhost"
	}
	compute, err := StartComputeAt(berth, dir, placement.Addr, "127.0.0.1:0", options, client)
	must(b, err)
	b.Cleanup(func() { must(b, compute.Stop()) })
	ctx, stop := context.WithCancel(b.Context())
	var all sync.WaitGroup
	defer func() {
		stop()
		all.Wait()
	}()
	counts := &agentCounts{}
	for n := range *idleAgents {
		a := newIdleAgent(n, compute.Addr, client, counts)
		all.Go(func() {
			if sleep(ctx, rand.N(10*time.Second)) {
				a.run(ctx, &all)
			}
		})
	}
	first := awaitConnected(b, counts, *idleAgents, compute)
	measureIdle(b, counts, compute)

	must(b, syscall.Kill(compute.PID, syscall.SIGKILL))
	must(b, compute.Stop())
	began, reported := time.Now(), counts.reports.Load()
	again, err := StartComputeAt(berth, dir, placement.Addr, compute.Addr, options, client)
	must(b, err)
	compute = again
	must(b, awaitNone(counts))
	awaitConnected(b, counts, *idleAgents, compute)
	for counts.reports.Load() < reported+int64(*idleAgents) {
		if time.Since(began) > 5*time.Minute {
			b.Fatalf("%d of %d agents have reported after five minutes", counts.reports.Load()-reported, *idleAgents)
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.ReportMetric(time.Since(began).Seconds(), "reconnect-s")
	b.ReportMetric(first.Seconds(), "connect-s")
	worked, err := compute.Worked()
	must(b, err)
	b.ReportMetric(worked.Seconds(), "reconnect-cpu-s")
	_, peak, err := compute.Resident()
	must(b, err)
	b.ReportMetric(float64(peak)/(1<<20), "peak-MiB")
	b.ReportMetric(0, "ns/op")
}

// awaitNone waits until the agents have noticed that the streams of the killed process have ended.
func awaitNone(counts *agentCounts) error {
	for end := time.Now().Add(time.Minute); counts.ends.Load() < int64(*idleAgents); {
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d streams have ended", counts.ends.Load(), *idleAgents)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// measureIdle reports the memory and the processor time of compute over a minute.
func measureIdle(b *testing.B, counts *agentCounts, compute *Process) {
	b.Helper()
	time.Sleep(15 * time.Second) // until the audits after the first reports are done
	lines, reports, signs, ended := counts.lines.Load(), counts.reports.Load(), counts.signs.Load(), counts.ends.Load()
	before, err := compute.Worked()
	must(b, err)
	began := time.Now()
	time.Sleep(time.Minute)
	after, err := compute.Worked()
	must(b, err)
	elapsed := time.Since(began).Seconds()
	b.ReportMetric((after-before).Seconds()/elapsed, "idle-cores")
	b.ReportMetric(float64(counts.lines.Load()-lines)/elapsed, "lines/s")
	b.ReportMetric(float64(counts.reports.Load()-reports)/elapsed, "reports/s")
	b.ReportMetric(float64(counts.signs.Load()-signs)/elapsed, "signs/s")
	if n := counts.ends.Load() - ended; n > 0 {
		b.Logf("%d streams ended while nothing happened: %v", n, counts.failure.Load())
	}
	b.ReportMetric(float64(counts.ends.Load()-ended), "idle-ends")
	now, _, err := compute.Resident()
	must(b, err)
	b.ReportMetric(float64(now)/(1<<20), "idle-MiB")
}

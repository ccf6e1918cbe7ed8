package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)

// delayingProxy is a reverse proxy in front of Placement. It records every request and can delay the answer to one of
// them.
type delayingProxy struct {
	*httptest.Server

	mu        sync.Mutex
	requests  []string      // method and path, in order
	prefix    string        // the answer to the next request with this prefix is delayed; empty: none
	delayed   chan struct{} // closed when an answer is delayed
	cancelled chan struct{} // closed when the client of that request has cancelled it
	release   chan struct{} // closed when its answer may be sent
}

// newDelayingProxy starts a proxy for the Placement at target.
func newDelayingProxy(t *testing.T, target string) *delayingProxy {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	f := &delayingProxy{delayed: make(chan struct{}), cancelled: make(chan struct{}), release: make(chan struct{})}
	forward := httputil.NewSingleHostReverseProxy(to)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.delays(r) {
			recorder := httptest.NewRecorder()
			forward.ServeHTTP(recorder, r.Clone(t.Context()))
			close(f.delayed)
			select {
			case <-f.release:
			case <-r.Context().Done():
				close(f.cancelled)
				return
			}
			for name, values := range recorder.Header() {
				w.Header()[name] = values
			}
			w.WriteHeader(recorder.Code)
			io.Copy(w, recorder.Body)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// delay makes the proxy delay the answer to the next request with this prefix.
func (f *delayingProxy) delay(prefix string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prefix = prefix
}

// delays records a request and reports whether its answer is delayed.
func (f *delayingProxy) delays(r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	line := r.Method + " " + r.URL.Path
	f.requests = append(f.requests, line)
	if f.prefix == "" || !strings.HasPrefix(line, f.prefix) {
		return false
	}
	f.prefix = ""
	return true
}

// sent returns the requests so far.
func (f *delayingProxy) sent() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// takeover is a claim that one compute has begun when another one takes over its database.
type takeover struct {
	*testing.T
	fleet    *fleet
	proxy    *delayingProxy // between the first compute and Placement
	first    *daemon        // waits for the answer to its first request of the claim
	args     []string
	agent    string // configuration file of the agent of cmp1
	serverID string // id of the server
}

// newTakeover starts a cloud whose compute has begun a claim. database is the URL of its database, direct the
// URL of the same database for other processes.
func newTakeover(t *testing.T, database, direct string) *takeover {
	t.Helper()
	f := &fleet{t: t, dir: testenv.MemoryDir(t), agents: map[string]*daemon{}}
	f.placement = start(t, []string{"placement"}, "placement", "--config-file", f.file("placement", ""),
		"--data-dir", f.path("placement"), "--listen", "127.0.0.1:0")
	c := &takeover{T: t, fleet: f, proxy: newDelayingProxy(t, f.placement.urls["placement"])}
	run := func(name, database, placement string) []string {
		conf := f.file(name, "[database]\nconnection = "+database+"\n")
		return []string{"compute", "--config-file", conf, "--data-dir", f.path(name), "--listen", "127.0.0.1:0",
			"--placement-url", placement}
	}
	c.args = run("second", direct, f.placement.urls["placement"])
	c.first = start(t, []string{"compute"}, run("first", database, c.proxy.URL)...)
	f.compute = c.first
	c.agent = f.host("cmp1", bus81(t), "")
	f.startAgent("cmp1", c.agent)
	flavor, err := c.first.compute().CreateFlavor(t.Context(), compute.CreateFlavor{Name: "f", VCPUs: 1, RAM: 64})
	if err != nil {
		t.Fatal(err)
	}
	c.proxy.delay("GET /allocation_candidates") // the claim follows it
	created, err := c.first.compute().CreateServer(t.Context(), compute.CreateServer{Name: "s", Flavor: flavor.ID})
	if err != nil {
		t.Fatal(err)
	}
	c.serverID = created.ID
	c.wait("the claim begins", c.proxy.delayed)
	return c
}

func (c *takeover) wait(what string, done <-chan struct{}) {
	c.Helper()
	select {
	case <-done:
	case <-time.After(testenv.Patience):
		c.Fatalf("timeout: %s\n%s", what, c.first.log)
	}
}

// takeOver starts another compute on the database, waits until it has repeated the claim, and deletes the server. The
// claim is released after the agent has reported to the new compute that there is no guest.
func (c *takeover) takeOver() {
	c.Helper()
	second := start(c.T, []string{"compute"}, c.args...)
	testenv.Until(c.T, "the second compute has claimed", func() (bool, error) { return c.allocated(), nil })
	if err := second.compute().DeleteServer(c.Context(), c.serverID); err != nil {
		c.Fatal(err)
	}
	c.fleet.compute = second
	c.fleet.startAgent("cmp1", c.agent)
	testenv.Until(c.T, "the claim is released", func() (bool, error) { return !c.allocated(), nil })
}

func (c *takeover) allocated() bool {
	c.Helper()
	held, err := c.fleet.placement.placement().Allocation(c.Context(), resource.ConsumerID(c.serverID))
	if err != nil {
		c.Fatal(err)
	}
	return len(held.Allocation) > 0
}

// checkFirstEnds checks that the first compute ends because another one has its database, and that it has sent nothing
// to Placement after the requests in before.
func (c *takeover) checkFirstEnds(before []string) {
	c.Helper()
	select {
	case err := <-c.first.done:
		c.first.done <- err
		if err == nil || !strings.Contains(c.first.log.String(), "taken over compute's database") {
			c.Errorf("it ended without the reason (%v):\n%s", err, c.first.log)
		}
	case <-time.After(testenv.Patience):
		c.Errorf("it did not end although another process has its database\n%s", c.first.log)
	}
	if more := c.proxy.sent()[len(before):]; len(more) > 0 {
		c.Errorf("compute sent %q to Placement after its lease had ended", more)
	}
	if c.allocated() {
		c.Error("the deleted server has an allocation")
	}
}

// A compute that is stopped during a claim for longer than its lease sends nothing to Placement afterwards.
func TestStoppedComputeClaimsNothing(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	url := "sqlite:///" + filepath.Join(t.TempDir(), "compute.db")
	c := newTakeover(t, url, url)
	stopBetweenWrites(t, c.first, url)
	c.takeOver()
	before := c.proxy.sent()
	unlock := lock(t, url) // so that the process cannot read the lease immediately
	close(c.proxy.release)
	time.Sleep(100 * time.Millisecond) // so that the answer has arrived when the process continues
	if err := c.first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second) // long enough for the request that must not be sent
	unlock()
	c.checkFirstEnds(before)
}

// lock keeps an SQLite database locked for writing until unlock.
func lock(t *testing.T, url string) (unlock func()) {
	t.Helper()
	db, err := sqldb.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	locked, release := make(chan struct{}), make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() {
		if err := db.Write(t.Context(), func(*sqldb.Tx) error { close(locked); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-locked
	unlock = sync.OnceFunc(func() {
		close(release)
		holding.Wait()
		db.Close()
	})
	t.Cleanup(unlock)
	return unlock
}

// If the connections of a compute to its database drop every byte and are not closed, its lease ends before another
// process can take it: the running call to Placement is cancelled, and no further one begins.
func TestComputeCutOffFromItsDatabaseClaimsNothing(t *testing.T) {
	t.Parallel()
	servers := map[string]func(testing.TB, ...string) *databases.Server{
		"MariaDB": databases.MariaDB, "PostgreSQL": databases.PostgreSQL}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := server(t)
			url, proxy := db.Database(t), databases.NewProxy(t, db.Addr)
			c := newTakeover(t, proxy.URL(url), url)
			dropTraffic(t, proxy, url)
			c.wait("the call to Placement ends with the lease", c.proxy.cancelled)
			before := c.proxy.sent()
			c.takeOver()
			close(c.proxy.release)
			proxy.Repair()
			proxy.Drop()
			c.checkFirstEnds(before)
		})
	}
}

// dropTraffic makes a proxy drop everything that clients send from now on, when no transaction has locked the rows of
// compute's lease.
func dropTraffic(t *testing.T, proxy *databases.Proxy, url string) {
	t.Helper()
	unlocked := leaseUnlocked(t, url)
	testenv.Until(t, "the connections were cut between two writes", func() (bool, error) {
		proxy.Break(slices.Repeat([]databases.Cut{{Stall: true}}, 100_000)...)
		err := unlocked()
		if err != nil {
			proxy.Repair()
			proxy.Drop() // open transactions are rolled back
		}
		return err == nil, err
	})
}

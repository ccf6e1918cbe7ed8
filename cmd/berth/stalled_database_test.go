package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
)

// stalledServices is a placement and a compute on a real database server that can stall. Requests have a time limit of
// one second.
type stalledServices struct {
	proxy              *databases.Proxy
	placement, compute *daemon
	host               provider.ID
}

func newStalledServices(t *testing.T, server *databases.Server) *stalledServices {
	t.Helper()
	s := &stalledServices{proxy: databases.NewProxy(t, server.Addr)}
	path := filepath.Join(t.TempDir(), "berth.conf")
	text := fmt.Sprintf("[api]\nauth_strategy = noauth2\n[placement_database]\nconnection = "+
		"%s\n[database]\nconnection = %s\n[berth]\nrequest_timeout = 1\n",
		s.proxy.URL(server.Database(t)), s.proxy.URL(server.Database(t)))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	s.placement = start(t, []string{"placement"}, "placement", "--config-file", path, "--listen", "127.0.0.1:0")
	s.compute = start(t, []string{"compute"}, "compute", "--config-file", path, "--listen", "127.0.0.1:0",
		"--placement-url", s.placement.urls["placement"])
	testenv.Until(t, "the host is created", func() error { // a second may be too short on a busy machine
		err := s.createHost(t)
		if !fault.Is(err, fault.Unavailable) {
			must(t, err)
		}
		return err
	})
	return s
}

// createHost creates a provider of its own.
func (s *stalledServices) createHost(t *testing.T) error {
	id := uuid.NewString()
	host, err := s.placement.placement().CreateProvider(t.Context(), provider.ID(id), "host-"+id, "")
	if err != nil {
		return err
	}
	s.host = host.ID
	_, err = s.placement.placement().PutInventories(t.Context(), host.ID, host.Generation,
		map[resource.Class]resource.Inventory{"VCPU": resource.Whole(1 << 30)})
	return err
}

// requests returns one read and one write of each service.
func (s *stalledServices) requests() (list []func(ctx context.Context) *http.Request) {
	for _, r := range []struct {
		d            *daemon
		method, path string
		body         func() string
	}{
		{s.placement, "GET", "/resource_providers", nil},
		{s.placement, "PUT", "/allocations/%s", func() string {
			return fmt.Sprintf(`{"allocations":{%q:{"resources":{"VCPU":1}}},"project_id":"p","user_id":"u",`+
				`"consumer_generation":null,"consumer_type":"X"}`, s.host)
		}},
		{s.compute, "GET", "/v2.1/flavors", nil},
		{s.compute, "POST", "/v2.1/flavors", func() string {
			return fmt.Sprintf(`{"flavor":{"name":%q,"vcpus":1,"ram":64,"disk":0}}`, uuid.NewString())
		}},
	} {
		list = append(list, func(ctx context.Context) *http.Request {
			path, body := r.path, ""
			if strings.Contains(path, "%s") {
				path = fmt.Sprintf(path, uuid.NewString())
			}
			if r.body != nil {
				body = r.body()
			}
			var base string
			for _, base = range r.d.urls {
			}
			req, err := http.NewRequestWithContext(ctx, r.method, base+path, strings.NewReader(body))
			if err != nil {
				panic(err) // does not occur: the parts are constant
			}
			req.Header.Set("X-Auth-Token", "admin")
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("OpenStack-API-Version", "placement 1.39")
			return req
		})
	}
	return list
}

// send sends a request and returns the status and the body of the answer.
func send(t *testing.T, req *http.Request) (int, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
		return 0, ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s: %v", req.Method, req.URL.Path, err)
	}
	return resp.StatusCode, string(body)
}

// While the database server stalls, every request is answered within its time limit.
func TestStalledDatabase(t *testing.T) {
	t.Parallel()
	for _, server := range []*databases.Server{databases.MariaDB(t), databases.PostgreSQL(t)} {
		t.Run(server.Name(), func(t *testing.T) { testStalledRequests(t, newStalledServices(t, server)) })
		t.Run(server.Name()+" at COMMIT", func(t *testing.T) { testStalledCommit(t, newStalledServices(t, server), server) })
	}
}

// slowBody is a request body that takes longer to arrive than the time limit of a request.
type slowBody struct{ rest string }

func (b *slowBody) Read(p []byte) (int, error) {
	if b.rest == "" {
		return 0, io.EOF
	}
	time.Sleep(300 * time.Millisecond)
	n := copy(p, b.rest[:min(20, len(b.rest))])
	b.rest = b.rest[n:]
	return n, nil
}

// The time limit of a request counts the time of the service, not that in which a client sends its body.
func TestTimeLimitExcludesTheRequestBody(t *testing.T) {
	t.Parallel()
	for _, request := range newStalledServices(t, databases.MariaDB(t)).requests() {
		if request(t.Context()).Method == http.MethodGet {
			continue
		}
		testenv.Until(t, "a request with a slow body succeeds", func() error { // a second may be too short for the rest
			req := request(t.Context())
			whole, err := io.ReadAll(req.Body)
			must(t, err)
			req.Body, req.ContentLength = io.NopCloser(&slowBody{string(whole)}), int64(len(whole))
			began := time.Now()
			status, body := send(t, req)
			text := fmt.Sprintf("%s %s: %d after %s: %s", req.Method, req.URL.Path, status, time.Since(began), body)
			if status == http.StatusServiceUnavailable {
				return errors.New(text)
			}
			if status >= 300 || time.Since(began) < 1200*time.Millisecond {
				t.Error(text)
			}
			return nil
		})
	}
}

// testStalledRequests checks that requests are answered with 503, also those that were running when the stall began,
// and that they succeed again when it has ended. A stream of assignments is not ended by the time limit.
func testStalledRequests(t *testing.T, s *stalledServices) {
	ended := s.followAssignments(t)
	busy, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, request := range s.requests() {
		for range 3 { // so that the stall occurs at every statement, BEGIN, COMMIT and ROLLBACK
			all.Go(func() {
				for busy.Err() == nil {
					status, body := send(t, request(context.Background()))
					if status >= 400 && status != 503 {
						t.Errorf("%d: %s", status, body)
					}
				}
			})
		}
	}
	time.Sleep(1500 * time.Millisecond)
	s.proxy.Freeze()
	time.Sleep(500 * time.Millisecond) // so that running requests are stalled
	for _, request := range s.requests() {
		if status, body := send(t, request(t.Context())); status != 503 || strings.Contains(body, "unknown") ||
			!strings.Contains(body, "not finished within 1s") {
			t.Errorf("stalled: %d %s", status, body)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("the stream of assignments ended: %v", err)
	default:
	}
	stop()
	all.Wait()
	s.proxy.Thaw()
	for _, request := range s.requests() {
		testenv.Until(t, "requests succeed again", func() (bool, error) {
			status, body := send(t, request(t.Context()))
			return status < 300, fmt.Errorf("%d %s", status, body)
		})
	}
}

// testStalledCommit checks that the answer to a request whose COMMIT does not end in time reports an unknown outcome,
// and that no lock remains.
func testStalledCommit(t *testing.T, s *stalledServices, server *databases.Server) {
	s.compute.kill()     // because it also sends COMMITs, for its lease
	word := "\x03COMMIT" // not READ COMMITTED
	if server.Name() == "PostgreSQL" {
		word = "COMMIT\x00"
	}
	s.proxy.Break(databases.Cut{Word: word, Stall: true})
	claim, before := s.requests()[1], s.proxy.Broken()
	testenv.Until(t, "a request has reached COMMIT within its time", func() bool {
		status, body := send(t, claim(t.Context()))
		reached := s.proxy.Broken() > before
		if status != 503 || reached != strings.Contains(body, "berth.unknown_outcome") {
			t.Errorf("placement: %d, COMMIT reached %t: %s", status, reached, body)
		}
		return reached
	})
	testenv.Until(t, "another claim on the same provider succeeds", func() (bool, error) {
		status, body := send(t, claim(t.Context()))
		return status == 204, fmt.Errorf("%d %s", status, body)
	})
}

// followAssignments opens a stream of assignments and returns a channel for the error with which it ends.
func (s *stalledServices) followAssignments(t *testing.T) <-chan error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET",
		s.compute.urls["compute"]+"/berth/v1/hosts/cmp1/assignments", nil)
	must(t, err)
	req.Header.Set("X-Auth-Token", "admin:service")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, resp.Body)
		ended <- fmt.Errorf("the stream ended: %w", err)
	}()
	return ended
}

package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/placement/server/request"
)

// host creates a host with NUMA cells of 100 VCPUs each.
func (w *world) host(cells int) {
	w.t.Helper()
	root := uuid.NewString()
	w.must("1.39", "POST", "/resource_providers", fmt.Sprintf(`{"name":"host","uuid":%q}`, root))
	for i := range cells {
		id := uuid.NewString()
		w.must("1.39", "POST", "/resource_providers",
			fmt.Sprintf(`{"name":"cell-%d","uuid":%q,"parent_provider_uuid":%q}`, i, id, root))
		w.must("1.39", "PUT", "/resource_providers/"+id+"/inventories",
			`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":100}}}`)
	}
}

// send sends a request in the background and returns a channel for the status of its answer.
func (w *world) send(ctx context.Context, method, path string, body io.Reader) chan int {
	status := make(chan int, 1)
	r := httptest.NewRequestWithContext(ctx, method, path, body)
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	r.Header.Set("Content-Type", "application/json")
	go func() {
		rec := httptest.NewRecorder()
		w.server.ServeHTTP(rec, r)
		status <- rec.Code
	}()
	return status
}

func (w *world) wantStatus(status chan int, want int) {
	w.t.Helper()
	select {
	case got := <-status:
		if got != want {
			w.t.Errorf("status %d, want %d", got, want)
		}
	case <-time.After(testenv.Patience):
		w.t.Fatal("no answer")
	}
}

// waitForSearches returns when n searches wait for a slot.
func (w *world) waitForSearches(n int) {
	w.t.Helper()
	testenv.Until(w.t, fmt.Sprintf("%d searches wait", n), func() bool {
		return strings.Contains(bodyOf(w.t, w.ask("1.39", "GET", "/metrics", "")),
			fmt.Sprintf("\nberth_placement_searches_waiting %d\n", n))
	})
}

// The number of running searches is limited. The others wait until there is a slot or their client disconnects. Other
// requests do not wait.
func TestConcurrentSearchesAreLimited(t *testing.T) {
	w := newWorld(t)
	w.host(2)
	slots := cap(w.server.service.Searches)
	for range slots {
		if err := w.server.service.Searches.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var waiting []chan int
	for _, path := range []string{"/allocation_candidates?resources=VCPU:1", "/berth/v1/explain?resources=VCPU:1",
		"/resource_providers"} {
		waiting = append(waiting, w.send(t.Context(), "GET", path, nil))
	}
	leaving, leave := context.WithCancel(t.Context())
	left := w.send(leaving, "GET", "/allocation_candidates?resources=VCPU:1", nil)
	w.waitForSearches(4)
	w.must("1.39", "PUT", "/traits/CUSTOM_A", "")
	leave()
	w.wantStatus(left, http.StatusServiceUnavailable)
	w.waitForSearches(3)
	for range slots {
		w.server.service.Searches.Release()
	}
	for _, status := range waiting {
		w.wantStatus(status, http.StatusOK)
	}
	w.waitForSearches(0)
	if n := len(w.server.service.Searches); n != 0 {
		t.Errorf("%d slots were not released", n)
	}
}

// slowWriter is a client that receives nothing until it is released.
type slowWriter struct {
	*httptest.ResponseRecorder
	begun    chan struct{}
	once     sync.Once
	released chan struct{}
}

func (s *slowWriter) Write(data []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.released
	return s.ResponseRecorder.Write(data)
}

// A client that receives a large answer slowly holds no search slot. The number of such answers is limited.
func TestSlowReadersHoldNoSearchSlot(t *testing.T) {
	w := newWorld(t)
	w.server.service.Searches, w.server.service.Streams = make(request.Limiter, 1), make(request.Limiter, 1)
	w.host(80)
	// 80 × 80 candidates of more than 200 bytes each are larger than a chunk.
	const path = "/allocation_candidates?resources1=VCPU:1&resources2=VCPU:1&group_policy=none"
	slow := &slowWriter{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{}),
		released: make(chan struct{})}
	r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.server.ServeHTTP(slow, r)
	}()
	<-slow.begun
	w.must("1.39", "GET", "/allocation_candidates?resources=VCPU:1", "") // while the slow client receives nothing
	second := w.send(t.Context(), "GET", path, nil)
	select {
	case <-second:
		t.Error("a second large answer was sent at the same time as the first")
	case <-time.After(50 * time.Millisecond):
	}
	close(slow.released)
	w.wantStatus(second, http.StatusOK)
	select {
	case <-ended:
	case <-time.After(testenv.Patience):
		t.Fatal("the answer to the slow client did not end")
	}
	if n := strings.Count(slow.Body.String(), `"mappings"`); n != 6400 || slow.Body.Len() <= request.ChunkSize {
		t.Errorf("%d candidates in %d bytes", n, slow.Body.Len())
	}
	if len(w.server.service.Searches)+len(w.server.service.Streams) != 0 {
		t.Errorf("slots were not released: %d searches, %d streams", len(w.server.service.Searches),
			len(w.server.service.Streams))
	}
}

// The number of large bodies that are read at one time is limited, with and without a Content-Length. Small bodies do
// not wait.
func TestConcurrentLargeBodiesAreLimited(t *testing.T) {
	w := newWorld(t)
	const all, small = 4 * defaultMaxBody, rest.FreeBody
	// This body uses the whole budget until it is released.
	held := httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", all+small-1)))
	_, release, err := w.server.service.BodyBudget.Read(httptest.NewRecorder(), held, 2*all)
	if err != nil {
		t.Fatal(err)
	}
	large := `{"name":"` + strings.Repeat("x", 4*small) + `"}`
	withLength := w.send(t.Context(), "POST", "/resource_providers", strings.NewReader(large))
	chunked := w.send(t.Context(), "POST", "/resource_providers", io.MultiReader(strings.NewReader(large)))
	leaving, leave := context.WithCancel(t.Context())
	left := w.send(leaving, "POST", "/resource_providers", strings.NewReader(large))
	w.must("1.39", "POST", "/resource_providers", `{"name":"small"}`)
	leave()
	w.wantStatus(left, http.StatusServiceUnavailable)
	select {
	case <-withLength:
		t.Error("a large body did not wait")
	case <-chunked:
		t.Error("a large body of unknown length did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	release()
	w.wantStatus(withLength, http.StatusBadRequest)
	w.wantStatus(chunked, http.StatusBadRequest)
	_, release, err = w.server.service.BodyBudget.Read(httptest.NewRecorder(),
		httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", all+small-1))), 2*all)
	if err != nil {
		t.Errorf("the budget was not released: %v", err)
	}
	release()
}

// stalled is a body that stops arriving.
type stalled struct{}

func (stalled) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// A body that arrives too slowly is answered with 408, whatever its size.
func TestSlowBodyIsAborted(t *testing.T) {
	w := newWorld(t)
	for _, sent := range []int{10, 10 * rest.FreeBody} {
		body := io.MultiReader(strings.NewReader(strings.Repeat(" ", sent)), stalled{})
		w.wantStatus(w.send(t.Context(), "POST", "/resource_providers", body), http.StatusRequestTimeout)
	}
}

// Waiting ends when the request ends.
func TestWaitingEndsWithTheRequest(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	full := make(request.Limiter)
	if err := full.Acquire(ctx); !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	if err := request.Limiter(nil).Acquire(ctx); err != nil {
		t.Error(err)
	}
	request.Limiter(nil).Release()
}

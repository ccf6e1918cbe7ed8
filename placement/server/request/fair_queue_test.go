package request

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	api "github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/fault"
)

// TestFairQueue: the next turn is for the project that has had the least time.
func TestFairQueue(t *testing.T) {
	q := newFairQueue(1, 3)
	take := func(project string) error { return q.begin(t.Context(), project) }
	if err := take("greedy"); err != nil {
		t.Fatal(err)
	}
	order, begun := make(chan string, 10), 0
	enqueue := func(project string) {
		go func() {
			if err := take(project); err == nil {
				order <- project
			}
		}()
		for begun++; len(waitingOf(q)) < begun; time.Sleep(time.Millisecond) {
		}
	}
	enqueue("greedy")
	enqueue("greedy")
	enqueue("greedy")
	if err := take("greedy"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("one too many: %v", err)
	}
	take = func(project string) error { return q.resume(t.Context(), project) }
	enqueue("greedy") // one that has had a turn is not refused
	enqueue("other")
	var got []string
	last := "greedy"
	for range 5 {
		q.release(last, time.Second)
		last = <-order
		got = append(got, last)
	}
	if want := []string{"other", "greedy", "greedy", "greedy", "greedy"}; !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
	gone, leave := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- q.begin(gone, "gone") }()
	for len(waitingOf(q)) == 0 {
		time.Sleep(time.Millisecond)
	}
	leave()
	if err := <-done; !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v", err)
	}
	q.release(last, time.Second)
	if q.free != 1 || len(q.active)+len(q.spent)+len(q.waiting) != 0 {
		t.Errorf("%+v", q)
	}
}

func waitingOf(q *fairQueue) []*waitingTurn {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.waiting)
}

// TestTheOriginOfASearch: a service may name the project for which it asks, and another caller may not.
func TestTheOriginOfASearch(t *testing.T) {
	for roles, want := range map[string]string{"admin": "tenant", "service": "tenant", "member": "p/u"} {
		c := &Call{}
		c.R = httptest.NewRequest("GET", "/allocation_candidates", nil)
		c.R.Header.Set(api.ProjectHeader, "tenant")
		c.Who.Project, c.Who.User, c.Who.Roles = "p", "u", []string{roles}
		if got := c.Share(); got != want {
			t.Errorf("%s: %s, want %s", roles, got, want)
		}
	}
}

package stress

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/internal/testenv"
	"github.com/openberth/berth/resource"
)

const (
	clients = 64
	// open claims of a client; all clients together want far more than exists
	maxOpen = 2
	project = "9a3d6f0e-55f2-4f5c-8b0e-7d1f0c8f1a2b" // of all claims
)

// outcome is the result of a request as its client sees it.
type outcome int

const (
	nothing outcome = iota // no request
	unclear                // the response was 5xx or was lost
	yes                    // 204
	no                     // refused
)

// claim is one consumer as recorded by its client.
type claim struct {
	consumer  resource.ConsumerID
	requested resource.Allocation
	put       outcome
	// no: the server responded that nothing is held, which is only valid if put or an earlier release was unclear
	release outcome
}

// load is all clients.
type load struct {
	acknowledged atomic.Int64 // claims
	broken       atomic.Int64 // requests without response, or with 5xx
	refused      atomic.Int64

	stop    context.CancelFunc
	working sync.WaitGroup
	clients []*client
}

// client is one client. Only its own goroutine uses its fields while the load runs.
type client struct {
	load      *load
	api       *placement.Client
	random    *rand.Rand
	impatient bool // sometimes disconnects before the response

	open   []*claim // to be released later
	claims []*claim // all that it ever requested
	wrong  []string
}

// startLoad starts the clients.
func startLoad(t *testing.T, api *placement.Client, seed uint64, impatient bool) *load {
	ctx, stop := context.WithCancel(t.Context())
	s := &load{stop: stop}
	for i := range clients {
		c := &client{load: s, api: api, random: rand.New(rand.NewPCG(seed, uint64(i)+1)), impatient: impatient && i%4 == 0}
		s.clients = append(s.clients, c)
		s.working.Go(func() {
			for ctx.Err() == nil {
				c.step()
			}
		})
	}
	t.Cleanup(func() {
		stop()
		s.working.Wait()
	})
	return s
}

// awaitClaims waits until more claims were acknowledged.
func (s *load) awaitClaims(t *testing.T, more int) {
	t.Helper()
	goal := s.acknowledged.Load() + int64(more)
	testenv.Until(t, fmt.Sprintf("%d more claims are granted", more), func() error {
		if now := s.acknowledged.Load(); now < goal {
			return fmt.Errorf("%d were, %d are missing", now, goal-now)
		}
		return nil
	})
}

// end waits until every client has finished its request, and returns all claims.
func (s *load) end(t *testing.T) (all []*claim) {
	t.Helper()
	s.stop()
	s.working.Wait()
	for _, c := range s.clients {
		for _, wrong := range c.wrong {
			t.Error(wrong)
		}
		all = append(all, c.claims...)
	}
	t.Logf("%d claims requested, %d granted, %d refused; %d requests had no response or 5xx", len(all),
		s.acknowledged.Load(), s.refused.Load(), s.broken.Load())
	return all
}

// step claims or releases once.
func (c *client) step() {
	if len(c.open) >= maxOpen || len(c.open) > 0 && c.random.IntN(3) == 0 {
		at := c.random.IntN(len(c.open))
		if c.release(c.open[at]) {
			c.open = append(c.open[:at], c.open[at+1:]...)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	found, err := c.api.Candidates(ctx, ask(1+c.random.IntN(2), 1+c.random.IntN(devices), 10))
	switch {
	case err != nil:
		if c.outcomeOf("GET /allocation_candidates", err) == no {
			c.wrong = append(c.wrong, fmt.Sprintf("a candidate query failed: %v", err))
		}
	case len(found.List) > 10:
		c.wrong = append(c.wrong, fmt.Sprintf("%d candidates, the limit is 10", len(found.List)))
	case len(found.List) > 0:
		c.claim(found.List[c.random.IntN(len(found.List))])
	default: // nothing is free
		c.pause(50 * time.Millisecond)
	}
}

// pause waits for a random time of at most longest.
func (c *client) pause(longest time.Duration) {
	time.Sleep(time.Duration(c.random.Int64N(int64(longest))))
}

// context returns the context of a write: that of an impatient client sometimes ends soon.
func (c *client) context() (context.Context, context.CancelFunc) {
	limit := testenv.Patience
	if c.impatient && c.random.IntN(4) == 0 {
		limit = time.Duration(c.random.Int64N(int64(30 * time.Millisecond)))
	}
	return context.WithTimeout(context.Background(), limit)
}

// claim claims a candidate for a new consumer.
func (c *client) claim(from placement.Candidate) {
	mine := &claim{consumer: resource.ConsumerID(newID()), requested: from.Allocation}
	c.claims = append(c.claims, mine)
	ctx, cancel := c.context()
	defer cancel()
	err := c.api.PutAllocation(ctx, mine.consumer, placement.ConsumerAllocation{Allocation: from.Allocation,
		Mappings: from.Mappings,
		Project:  project, User: "stress", ConsumerType: "INSTANCE"})
	switch mine.put = c.outcomeOf("PUT /allocations", err); mine.put {
	case yes:
		c.load.acknowledged.Add(1)
	case no:
		c.load.refused.Add(1)
		c.pause(50 * time.Millisecond)
		if rest.StatusOf(err).Code != http.StatusConflict {
			c.wrong = append(c.wrong, fmt.Sprintf("the claim %s of %v: %v", mine.consumer, mine.requested, err))
		}
		return
	}
	c.open = append(c.open, mine)
}

// release releases a claim, and reports whether its state is known. Claims with an unclear outcome are released too.
func (c *client) release(mine *claim) (known bool) {
	ctx, cancel := c.context()
	defer cancel()
	before := mine.release
	_, err := c.api.REST.Do(ctx, "DELETE", "/allocations/"+string(mine.consumer), nil, nil)
	mine.release = c.outcomeOf("DELETE /allocations", err)
	if mine.release != no {
		return mine.release == yes
	}
	if status := rest.StatusOf(err); status.Code != http.StatusNotFound {
		c.wrong = append(c.wrong, fmt.Sprintf("the release of %s: %v", mine.consumer, err))
	}
	if mine.put == yes && before == nothing {
		c.wrong = append(c.wrong, fmt.Sprintf("the acknowledged claim %s does not exist: %v", mine.consumer, err))
	}
	return true
}

// outcomeOf returns the outcome of a request with this error.
func (c *client) outcomeOf(what string, err error) outcome {
	if err == nil {
		return yes
	}
	status := rest.StatusOf(err)
	if status != nil && status.Code < 500 {
		return no
	}
	if status != nil && status.Code != http.StatusServiceUnavailable {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: unexpected %d: %v", what, status.Code, err))
	}
	c.load.broken.Add(1)
	c.pause(100 * time.Millisecond) // otherwise 64 clients without a server leave no CPU time for its start
	return unclear
}

package stress

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/api/placement"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/resource"
)

const (
	clients = 64
	// how many claims a client likes to hold: together far more than there is
	want    = 2
	project = "9a3d6f0e-55f2-4f5c-8b0e-7d1f0c8f1a2b" // of all claims
)

// word is what a client was told.
type word int

const (
	nothing word = iota // it did not ask
	unclear             // it asked; the answer was 5xx or did not come
	yes                 // 204
	no                  // a clear refusal
)

// claim is one consumer, as its client knows it.
type claim struct {
	consumer resource.ConsumerID
	asked    resource.Allocation
	put      word
	// no: the server said that it holds nothing, which it may only say when put or an earlier release was unclear
	release word
}

// storm is all the clients at their work.
type storm struct {
	acknowledged atomic.Int64 // claims
	broken       atomic.Int64 // requests whose answer did not come, or was 5xx
	refused      atomic.Int64

	stop    context.CancelFunc
	working sync.WaitGroup
	clients []*customer
}

// customer is one client. Its fields are its own while the storm lasts.
type customer struct {
	storm  *storm
	api    *placement.Client
	chance *rand.Rand
	hasty  bool // it sometimes leaves before the answer comes

	open   []*claim // to be released some time
	claims []*claim // all that it ever asked for
	wrong  []string
}

// rage lets the clients loose.
func rage(t *testing.T, api *placement.Client, seed uint64, hasty bool) *storm {
	ctx, stop := context.WithCancel(t.Context())
	s := &storm{stop: stop}
	for i := range clients {
		c := &customer{storm: s, api: api, chance: rand.New(rand.NewPCG(seed, uint64(i)+1)), hasty: hasty && i%4 == 0}
		s.clients = append(s.clients, c)
		s.working.Go(func() {
			for ctx.Err() == nil {
				c.work()
			}
		})
	}
	t.Cleanup(func() {
		stop()
		s.working.Wait()
	})
	return s
}

// progress waits until so many more claims were acknowledged.
func (s *storm) progress(t *testing.T, more int) {
	t.Helper()
	goal := s.acknowledged.Load() + int64(more)
	eventually(t, fmt.Sprintf("%d more claims are granted", more), func() error {
		if now := s.acknowledged.Load(); now < goal {
			return fmt.Errorf("there were %d, %d to go", now, goal-now)
		}
		return nil
	})
}

// calm lets every client end what it is at, and returns all claims.
func (s *storm) calm(t *testing.T) (all []*claim) {
	t.Helper()
	s.stop()
	s.working.Wait()
	for _, c := range s.clients {
		for _, wrong := range c.wrong {
			t.Error(wrong)
		}
		all = append(all, c.claims...)
	}
	t.Logf("%d claims were asked for, %d granted, %d refused; %d requests had no answer or 5xx", len(all),
		s.acknowledged.Load(), s.refused.Load(), s.broken.Load())
	return all
}

// work is one step of a client.
func (c *customer) work() {
	if len(c.open) >= want || len(c.open) > 0 && c.chance.IntN(3) == 0 {
		at := c.chance.IntN(len(c.open))
		if c.letGo(c.open[at]) {
			c.open = append(c.open[:at], c.open[at+1:]...)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := c.api.Candidates(ctx, ask(1+c.chance.IntN(2), 1+c.chance.IntN(devices), 10))
	switch {
	case err != nil:
		if c.judge("GET /allocation_candidates", err) == no {
			c.wrong = append(c.wrong, fmt.Sprintf("a question is refused: %v", err))
		}
	case len(found.List) > 10:
		c.wrong = append(c.wrong, fmt.Sprintf("%d candidates, 10 were enough", len(found.List)))
	case len(found.List) > 0:
		c.claim(found.List[c.chance.IntN(len(found.List))])
	default: // all is taken
		c.rest(50 * time.Millisecond)
	}
}

func (c *customer) rest(longest time.Duration) {
	time.Sleep(time.Duration(c.chance.Int64N(int64(longest))))
}

// request is the context of a write: a hasty client leaves soon now and then.
func (c *customer) request() (context.Context, context.CancelFunc) {
	limit := patience
	if c.hasty && c.chance.IntN(4) == 0 {
		limit = time.Duration(c.chance.Int64N(int64(30 * time.Millisecond)))
	}
	return context.WithTimeout(context.Background(), limit)
}

func (c *customer) claim(from placement.Candidate) {
	mine := &claim{consumer: resource.ConsumerID(newID()), asked: from.Allocation}
	c.claims = append(c.claims, mine)
	ctx, cancel := c.request()
	defer cancel()
	err := c.api.PutAllocation(ctx, mine.consumer, placement.ConsumerAllocation{Allocation: from.Allocation,
		Mappings: from.Mappings,
		Project:  project, User: "fire", ConsumerType: "INSTANCE"})
	switch mine.put = c.judge("PUT /allocations", err); mine.put {
	case yes:
		c.storm.acknowledged.Add(1)
	case no:
		c.storm.refused.Add(1)
		c.rest(50 * time.Millisecond)
		if rest.StatusOf(err).Code != http.StatusConflict {
			c.wrong = append(c.wrong, fmt.Sprintf("the claim %s of %v: %v", mine.consumer, mine.asked, err))
		}
		return
	}
	c.open = append(c.open, mine)
}

// letGo releases a claim, and says whether that is settled. What may or may not have been granted is released too.
func (c *customer) letGo(mine *claim) (settled bool) {
	ctx, cancel := c.request()
	defer cancel()
	before := mine.release
	_, err := c.api.REST.Do(ctx, "DELETE", "/allocations/"+string(mine.consumer), nil, nil)
	mine.release = c.judge("DELETE /allocations", err)
	if mine.release != no {
		return mine.release == yes
	}
	if status := rest.StatusOf(err); status.Code != http.StatusNotFound {
		c.wrong = append(c.wrong, fmt.Sprintf("the release of %s: %v", mine.consumer, err))
	}
	if mine.put == yes && before == nothing {
		c.wrong = append(c.wrong, fmt.Sprintf("the claim %s was acknowledged and is gone: %v", mine.consumer, err))
	}
	return true
}

// judge turns how a request went into what its client knows.
func (c *customer) judge(what string, err error) word {
	if err == nil {
		return yes
	}
	status := rest.StatusOf(err)
	if status != nil && status.Code < 500 {
		return no
	}
	if status != nil && status.Code != http.StatusServiceUnavailable {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: %d is Berth's own fault: %v", what, status.Code, err))
	}
	c.storm.broken.Add(1)
	c.rest(100 * time.Millisecond) // else 64 clients at a dead server's door leave no time for its start
	return unclear
}

// check holds what the server says against what the clients were told.
func check(t *testing.T, api *placement.Client, w world, claims []*claim) {
	t.Helper()
	p, err := w.look(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	wrong, doubts := w.addUp(p), 0
	for _, c := range claims {
		held, there := p.held[c.consumer]
		delete(p.held, c.consumer)
		switch must, may := c.outcome(); {
		case there && !may:
			wrong = append(wrong, fmt.Sprintf("%s is there, and must not be: %+v", c.consumer, *c))
		case !there && must:
			wrong = append(wrong, fmt.Sprintf("%s was acknowledged, and is not there: %+v", c.consumer, *c))
		case there && !held.Equal(c.asked):
			wrong = append(wrong, fmt.Sprintf("%s holds %v, not %v: %+v", c.consumer, held, c.asked, *c))
		case must != may:
			doubts++
		}
		if there || c.put == unclear {
			if err := same(t.Context(), api, c, held, there); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	for consumer, held := range p.held {
		wrong = append(wrong, fmt.Sprintf("%s holds %v and nobody ever asked for it", consumer, held))
	}
	for _, sentence := range wrong[:min(len(wrong), 20)] {
		t.Error(sentence)
	}
	t.Logf("%d claims checked, of %d nobody knew; %d errors", len(claims), doubts, len(wrong))
}

// outcome says whether a claim must be there, and whether it may.
func (c *claim) outcome() (must, may bool) {
	granted := c.put == yes
	switch c.release {
	case nothing:
		return granted, c.put != no
	case unclear:
		return false, true
	case no: // a claim whose answer was lost may have been granted later than that
		return false, c.put == unclear
	}
	return false, false // released
}

// same reads a consumer by itself.
func same(ctx context.Context, api *placement.Client, c *claim, held resource.Allocation, there bool) error {
	got, err := api.Allocation(ctx, c.consumer)
	switch {
	case err != nil:
		return err
	case !got.Allocation.Equal(held):
		return fmt.Errorf("%s holds %v, its providers say %v", c.consumer, got.Allocation, held)
	case there && (got.Project != project || got.User != "fire" || got.ConsumerType != "INSTANCE" ||
		got.Generation == nil):
		return fmt.Errorf("%s is not whole: %+v", c.consumer, got)
	}
	return nil
}

// sweep releases all that is left. Then nothing is taken, every host is offered whole, and a consumer whose claim
// failed is as one that never was: it may claim with generation null.
func sweep(t *testing.T, api *placement.Client, w world, claims []*claim) {
	t.Helper()
	ctx := t.Context()
	failed := 0
	for _, c := range claims {
		if _, may := c.outcome(); may {
			if err := api.DeleteAllocation(ctx, c.consumer); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range claims {
		if c.put == yes || failed == 40 {
			continue
		}
		failed++
		err := errors.Join(api.PutAllocation(ctx, c.consumer, placement.ConsumerAllocation{Allocation: c.asked,
			Project: project,
			User:    "fire", ConsumerType: "INSTANCE"}),
			api.DeleteAllocation(ctx, c.consumer))
		if err != nil {
			t.Errorf("%s is gone and cannot claim anew: %v", c.consumer, err)
		}
	}
	p, err := w.look(ctx, api)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := w.addUp(p); len(wrong) > 0 || len(p.held) > 0 {
		t.Errorf("after everything was released: %v, and %v is held", wrong, p.held)
	}
	found, err := api.Candidates(ctx, resource.Ask{Groups: []resource.Group{{Resources: ofHost}}})
	if err != nil || len(found.List) != hosts {
		t.Errorf("%d of %d empty hosts are offered: %v", len(found.List), hosts, err)
	}
}

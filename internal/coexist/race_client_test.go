package coexist

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/bench"
)

const project, user = "coexist", "tester"

// close closes all connections.
func (c *client) close() {
	for i := range c.conns {
		c.conns[i].Close()
		c.secondConns[i].Close()
	}
}

// fail records a failure and ends the race.
func (c *client) fail(format string, args ...any) {
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
	c.failed.Store(true)
}

// anyServer returns the index of a random server.
func (c *client) anyServer() int { return c.chance.IntN(len(c.servers)) }

// pause waits for a short random time: without it Berth's clients would use all resources.
func (c *client) pause() { time.Sleep(time.Duration(c.chance.Int64N(int64(100 * time.Millisecond)))) }

// step executes one random operation.
func (c *client) step() {
	c.pause()
	var open []*operation
	for _, d := range c.operations {
		if !d.done {
			open = append(open, d)
		}
	}
	switch chance := c.chance.IntN(10); {
	case chance == 0:
		c.resize()
	case len(open) > 0 && (len(open) >= maxOpen || chance < 4):
		d := open[c.chance.IntN(len(open))]
		if len(d.held) == 1 && chance%2 == 0 {
			c.move(d)
		} else {
			c.release(d)
		}
	case chance == 9:
		c.duel()
	default:
		c.claim()
	}
}

// candidateServer returns the index of the server for a candidate query: rarely OpenStack's Placement, which
// responds slowly.
func (c *client) candidateServer() int {
	at := c.anyServer()
	if c.servers[at].original && c.chance.IntN(2) == 0 {
		at = c.anyServer()
	}
	return at
}

// choose requests candidates from a server and returns a random one; nil if there are none.
func (c *client) choose() allocation {
	found, err := c.ask(c.conns[c.candidateServer()], 1+c.chance.IntN(2), 1+c.chance.IntN(devices))
	if err != nil {
		c.fail("a candidate query failed: %v", err)
	}
	if len(found) == 0 {
		return nil
	}
	return found[c.chance.IntN(len(found))]
}

// outcome is the result of a write as its client sees it.
type outcome int

const (
	yes outcome = iota
	no
	unclear // only from OpenStack's Placement: Berth has no broken connections to its database here
)

// send sends a write to a server and returns the outcome. Any other response is an error.
func (c *client) send(conn *bench.Conn, server int, method, target string, body any) (outcome, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return no, err
		}
	}
	status, answer, err := conn.Do(method, target, data)
	switch {
	case err != nil:
		return unclear, err
	case status < 300:
		return yes, nil
	case status == http.StatusConflict:
		c.refused.Add(1)
		return no, nil
	case status >= 500 && c.servers[server].original:
		c.unclear.Add(1)
		return unclear, nil
	}
	return no, fmt.Errorf("%s: %s %s %s: %d %.500s", c.servers[server].name, method, target, data, status, answer)
}

// claimOf returns the body of a claim.
func claimOf(a allocation, generation any) map[string]any {
	if a == nil {
		a = allocation{}
	}
	return map[string]any{"allocations": a, "project_id": project, "user_id": user, "consumer_generation": generation,
		"consumer_type": "INSTANCE"}
}

// record records the outcome of a write that results in state now if it succeeds.
func (c *client) record(d *operation, server int, w outcome, now state) {
	d.log = append(d.log, fmt.Sprintf("%s was requested to write %s and responded %s", c.servers[server].name, now,
		[...]string{"yes", "no", "5xx"}[w]))
	switch w {
	case yes:
		d.held = now
	case unclear:
		d.maybe, d.done = append(d.maybe, now.String()), true
		fallthrough
	case no:
		d.touched = d.touched || c.servers[server].original
	}
}

// claim claims a candidate for a new consumer.
func (c *client) claim() {
	chosen := c.choose()
	if chosen == nil {
		return
	}
	consumer, at := uuid.NewString(), c.anyServer()
	d := &operation{held: state{consumer: nil}}
	c.operations = append(c.operations, d)
	w, err := c.send(c.conns[at], at, "PUT", "/allocations/"+consumer, claimOf(chosen, nil))
	if err != nil {
		c.fail("%v", err)
	}
	if c.record(d, at, w, state{consumer: chosen}); w == yes {
		c.granted[at].Add(1)
		return
	}
	d.done = true
}

// duel sends two different claims for one new consumer to two servers at the same time.
func (c *client) duel() {
	one, other := c.choose(), c.choose()
	if one == nil || other == nil {
		return
	}
	consumer := uuid.NewString()
	d := &operation{held: state{consumer: nil}}
	c.operations = append(c.operations, d)
	at := [2]int{c.anyServer(), c.anyServer()}
	if c.servers[at[0]].original && c.servers[at[1]].original {
		at[1] = 1 // two processes of OpenStack's Placement alone can leave an allocation without a consumer
	}
	claims := [2]allocation{one, other}
	var outcomes [2]outcome
	var failed [2]error
	var both sync.WaitGroup
	for i, conn := range []*bench.Conn{c.conns[at[0]], c.secondConns[at[1]]} {
		both.Go(func() {
			outcomes[i], failed[i] = c.send(conn, at[i], "PUT", "/allocations/"+consumer, claimOf(claims[i], nil))
		})
	}
	both.Wait()
	for i := range outcomes {
		if failed[i] != nil {
			c.fail("%v", failed[i])
		}
		if outcomes[i] == yes {
			c.granted[at[i]].Add(1)
		}
	}
	if outcomes[0] == yes && outcomes[1] == yes {
		// OpenStack's Placement does not check again for a consumer that appears between its SELECT and its INSERT.
		if !c.servers[at[0]].original && !c.servers[at[1]].original {
			c.fail("a claim for the new consumer %s was granted twice, by %s and %s", consumer, c.servers[at[0]].name,
				c.servers[at[1]].name)
		}
		c.doubled.Add(1)
		d.log = append(d.log, "granted twice")
		d.maybe = append(d.maybe, state{consumer: one}.String())
		d.held, d.done = state{consumer: other}, true
		return
	}
	for i := range outcomes {
		c.record(d, at[i], outcomes[i], state{consumer: claims[i]})
	}
	d.done = d.done || outcomes[0] != yes && outcomes[1] != yes
}

// generation reads a consumer from a random server, compares its allocation with the recorded one, and returns its
// generation.
func (c *client) generation(d *operation, consumer string) any {
	at := c.anyServer()
	answer, err := c.conns[at].Want(200, "GET", "/allocations/"+consumer, nil)
	if err != nil {
		c.fail("%v", err)
		return nil
	}
	var doc struct {
		Allocations map[string]share
		Generation  *int   `json:"consumer_generation"`
		Project     string `json:"project_id"`
	}
	if err := json.Unmarshal(answer, &doc); err != nil {
		c.fail("%v", err)
		return nil
	}
	if got := (state{consumer: doc.Allocations}).String(); got != (state{consumer: d.held[consumer]}).String() ||
		doc.Generation == nil || doc.Project != project {
		c.fail("%s returns for %s: %s; recorded: %s", c.servers[at].name, consumer, answer, d.held)
		return nil
	}
	return *doc.Generation
}

// move transfers the allocation of a consumer to a new consumer and gives the first one another allocation, in one
// request, as a migration does.
func (c *client) move(d *operation) {
	chosen := c.choose()
	if chosen == nil {
		return
	}
	var consumer string
	for consumer = range d.held {
	}
	generation := c.generation(d, consumer)
	if generation == nil {
		return
	}
	successor, at := uuid.NewString(), c.anyServer()
	w, err := c.send(c.conns[at], at, "POST", "/allocations", map[string]any{successor: claimOf(d.held[consumer], nil),
		consumer: claimOf(chosen, generation)})
	if err != nil {
		c.fail("%v", err)
	}
	now := state{successor: d.held[consumer], consumer: chosen}
	d.held[successor] = nil
	if c.record(d, at, w, now); w == yes {
		c.granted[at].Add(1)
		c.moved.Add(1)
		return
	}
	if !d.touched { // the successor is unknown to all servers
		delete(d.held, successor)
	}
}

// release releases one consumer of an operation: with DELETE, or with an empty claim.
func (c *client) release(d *operation) {
	now := state{}
	var consumer string
	for one, a := range d.held {
		if now[one] = a; len(a) > 0 {
			consumer = one
		}
	}
	now[consumer] = nil
	at := c.anyServer()
	var w outcome
	var err error
	if c.chance.IntN(2) == 0 {
		w, err = c.send(c.conns[at], at, "DELETE", "/allocations/"+consumer, nil)
	} else if generation := c.generation(d, consumer); generation == nil {
		return
	} else {
		w, err = c.send(c.conns[at], at, "PUT", "/allocations/"+consumer, claimOf(nil, generation))
	}
	if err != nil {
		c.fail("the release of %s, which holds %s: %v", consumer, d.held, err)
	}
	c.record(d, at, w, now)
	if now.String() == d.held.String() && w == yes {
		left := 0
		for _, a := range d.held {
			left += len(a)
		}
		d.done = left == 0
	}
}

// resize sets a total between the usage and the original total, with the generation at which the usage was read. A
// claim increments the generation, so no claim can come in between, and the provider never exceeds its capacity.
func (c *client) resize() {
	at := c.inventories[c.chance.IntN(len(c.inventories))]
	answer, err := c.conns[c.anyServer()].Want(200, "GET", "/resource_providers/"+at.provider+"/usages", nil)
	if err != nil {
		c.fail("%v", err)
		return
	}
	var doc struct {
		Generation int `json:"resource_provider_generation"`
		Usages     map[string]int
	}
	if err := json.Unmarshal(answer, &doc); err != nil {
		c.fail("%v", err)
		return
	}
	least := max(doc.Usages[at.class], 1)
	server := c.anyServer()
	w, err := c.send(c.conns[server], server, "PUT", "/resource_providers/"+at.provider+"/inventories/"+at.class,
		map[string]any{"resource_provider_generation": doc.Generation, "total": least + c.chance.IntN(c.base[at]-least+1)})
	if err != nil {
		c.fail("%v", err)
	}
	if w == yes {
		c.resized.Add(1)
	}
}

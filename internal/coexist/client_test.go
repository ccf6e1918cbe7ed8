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

const project, user = "together", "somebody"

func (c *client) close() {
	for i := range c.conns {
		c.conns[i].Close()
		c.rivals[i].Close()
	}
}

// fail ends the race.
func (c *client) fail(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
	c.failed.Store(true)
}

// any is one of the servers, by its number.
func (c *client) any() int { return c.chance.IntN(len(c.servers)) }

// rest leaves time for others: Berth's clients would take it all.
func (c *client) rest() { time.Sleep(time.Duration(c.chance.Int64N(int64(100 * time.Millisecond)))) }

// work is one step.
func (c *client) work() {
	c.rest()
	var open []*deed
	for _, d := range c.deeds {
		if !d.done {
			open = append(open, d)
		}
	}
	switch chance := c.chance.IntN(10); {
	case chance == 0:
		c.resize()
	case len(open) > 0 && (len(open) >= liked || chance < 4):
		d := open[c.chance.IntN(len(open))]
		if len(d.held) == 1 && chance%2 == 0 {
			c.move(d)
		} else {
			c.letGo(d)
		}
	case chance == 9:
		c.duel()
	default:
		c.claim()
	}
}

// asked is the server that a question goes to: seldom the original, whose answers take long.
func (c *client) asked() int {
	at := c.any()
	if c.servers[at].original && c.chance.IntN(2) == 0 {
		at = c.any()
	}
	return at
}

// choose asks a server for candidates and takes one by chance; nil when all is taken.
func (c *client) choose() allocation {
	found, err := c.ask(c.conns[c.asked()], 1+c.chance.IntN(2), 1+c.chance.IntN(devices))
	if err != nil {
		c.fail("a question is refused: %v", err)
	}
	if len(found) == 0 {
		return nil
	}
	return found[c.chance.IntN(len(found))]
}

// word is what a client was told.
type word int

const (
	yes word = iota
	no
	unclear // by the original only: Berth's connections to its database are whole, so it knows
)

// send sends a write to a server and judges the answer.
func (c *client) send(conn *bench.Conn, server int, method, target string, body any) (word, error) {
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

// claimOf is the body of a claim.
func claimOf(a allocation, generation any) map[string]any {
	if a == nil {
		a = allocation{}
	}
	return map[string]any{"allocations": a, "project_id": project, "user_id": user, "consumer_generation": generation,
		"consumer_type": "INSTANCE"}
}

// told writes down how a deed went that would have made it so.
func (c *client) told(d *deed, server int, w word, now state) {
	d.story = append(d.story, fmt.Sprintf("%s was asked for %s and said %s", c.servers[server].name, now,
		[...]string{"yes", "no", "5xx"}[w]))
	switch w {
	case yes:
		d.held = now
	case unclear:
		d.may, d.done = append(d.may, now.String()), true
		fallthrough
	case no:
		d.touched = d.touched || c.servers[server].original
	}
}

func (c *client) claim() {
	chosen := c.choose()
	if chosen == nil {
		return
	}
	consumer, at := uuid.NewString(), c.any()
	d := &deed{held: state{consumer: nil}}
	c.deeds = append(c.deeds, d)
	w, err := c.send(c.conns[at], at, "PUT", "/allocations/"+consumer, claimOf(chosen, nil))
	if err != nil {
		c.fail("%v", err)
	}
	if c.told(d, at, w, state{consumer: chosen}); w == yes {
		c.granted[at].Add(1)
		return
	}
	d.done = true
}

// duel lets two servers claim different things for one consumer that does not exist, at the same moment.
func (c *client) duel() {
	one, other := c.choose(), c.choose()
	if one == nil || other == nil {
		return
	}
	consumer := uuid.NewString()
	d := &deed{held: state{consumer: nil}}
	c.deeds = append(c.deeds, d)
	at := [2]int{c.any(), c.any()}
	if c.servers[at[0]].original && c.servers[at[1]].original {
		at[1] = 1 // two processes of the original can leave an allocation without a consumer, without any help
	}
	claims := [2]allocation{one, other}
	var words [2]word
	var failed [2]error
	var both sync.WaitGroup
	for i, conn := range []*bench.Conn{c.conns[at[0]], c.rivals[at[1]]} {
		both.Go(func() {
			words[i], failed[i] = c.send(conn, at[i], "PUT", "/allocations/"+consumer, claimOf(claims[i], nil))
		})
	}
	both.Wait()
	for i := range words {
		if failed[i] != nil {
			c.fail("%v", failed[i])
		}
		if words[i] == yes {
			c.granted[at[i]].Add(1)
		}
	}
	if words[0] == yes && words[1] == yes {
		// The original does not look again at a consumer that appears between its question and its INSERT.
		if !c.servers[at[0]].original && !c.servers[at[1]].original {
			c.fail("%s was to be nobody and was granted twice, by %s and %s", consumer, c.servers[at[0]].name,
				c.servers[at[1]].name)
		}
		c.doubled.Add(1)
		d.story = append(d.story, "granted twice")
		d.may = append(d.may, state{consumer: one}.String())
		d.held, d.done = state{consumer: other}, true
		return
	}
	for i := range words {
		c.told(d, at[i], words[i], state{consumer: claims[i]})
	}
	d.done = d.done || words[0] != yes && words[1] != yes
}

// generation reads a consumer by some server: what it holds is what its client was told, whoever told it.
func (c *client) generation(d *deed, consumer string) any {
	at := c.any()
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
		c.fail("%s says that %s holds %s; its client was told %s", c.servers[at].name, consumer, answer, d.held)
		return nil
	}
	return *doc.Generation
}

// move lets another consumer take over what one holds, and gives that one something else: all in one request, as a
// migration does.
func (c *client) move(d *deed) {
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
	heir, at := uuid.NewString(), c.any()
	w, err := c.send(c.conns[at], at, "POST", "/allocations", map[string]any{heir: claimOf(d.held[consumer], nil),
		consumer: claimOf(chosen, generation)})
	if err != nil {
		c.fail("%v", err)
	}
	now := state{heir: d.held[consumer], consumer: chosen}
	d.held[heir] = nil
	if c.told(d, at, w, now); w == yes {
		c.granted[at].Add(1)
		c.moved.Add(1)
		return
	}
	if !d.touched { // nobody has heard of the heir
		delete(d.held, heir)
	}
}

// letGo releases a consumer of a deed: by DELETE, or by a claim of nothing.
func (c *client) letGo(d *deed) {
	now := state{}
	var consumer string
	for one, a := range d.held {
		if now[one] = a; len(a) > 0 {
			consumer = one
		}
	}
	now[consumer] = nil
	at := c.any()
	var w word
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
	c.told(d, at, w, now)
	if now.String() == d.held.String() && w == yes {
		left := 0
		for _, a := range d.held {
			left += len(a)
		}
		d.done = left == 0
	}
}

// resize changes a total to something between what is taken and what it was: guarded by the generation at which the
// usage was read. A claim raises the generation, so no claim may come between, and the provider is over its capacity at
// no moment.
func (c *client) resize() {
	at := c.spots[c.chance.IntN(len(c.spots))]
	answer, err := c.conns[c.any()].Want(200, "GET", "/resource_providers/"+at.provider+"/usages", nil)
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
	server := c.any()
	w, err := c.send(c.conns[server], server, "PUT", "/resource_providers/"+at.provider+"/inventories/"+at.class,
		map[string]any{"resource_provider_generation": doc.Generation, "total": least + c.chance.IntN(c.base[at]-least+1)})
	if err != nil {
		c.fail("%v", err)
	}
	if w == yes {
		c.resized.Add(1)
	}
}

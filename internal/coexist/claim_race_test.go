package coexist

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/internal/testenv"
)

const (
	clients = 12
	hosts   = 4
	devices = 2 // of each host
	maxOpen = 3 // open operations of a client; all clients together want far more than exists
)

// race is clients of all servers that compete for too few resources.
type race struct {
	servers     []*server
	class       string            // of the devices; only this race uses it
	base        map[inventory]int // the original total of each inventory
	inventories []inventory       // keys of base
	granted     []atomic.Int64    // claims, by server
	refused     atomic.Int64
	moved       atomic.Int64
	resized     atomic.Int64
	failed      atomic.Bool
	unclear     atomic.Int64 // 5xx responses of OpenStack's Placement
	doubled     atomic.Int64 // duels that two servers granted, one of them OpenStack's Placement
}

// inventory identifies one inventory.
type inventory struct{ provider, class string }

// operation is a sequence of writes to some consumers, and their expected allocations.
type operation struct {
	held    state
	maybe   []string // states that are also possible after a 5xx response
	touched bool     // OpenStack's Placement refused a write: it may have left a consumer without allocations
	log     []string // for failure messages
	done    bool     // no more writes follow
}

// client is one client of the race.
type client struct {
	*race
	chance      *rand.Rand
	conns       []*bench.Conn // one to each server
	secondConns []*bench.Conn // a second one to each, for duels
	operations  []*operation
	failures    []string
}

func (s *site) runRaces(t *testing.T) {
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { s.raceOnce(t, seed) })
	}
}

func (s *site) raceOnce(t *testing.T, seed uint64) {
	r := &race{servers: s.servers, class: "CUSTOM_RACE_" + strings.ToUpper(uuid.NewString()[:8]),
		base:    map[inventory]int{},
		granted: make([]atomic.Int64, len(s.servers))}
	r.build(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working sync.WaitGroup
	all := make([]*client, clients)
	for i := range all {
		c := &client{race: r, chance: rand.New(rand.NewPCG(seed, uint64(i)))}
		for _, one := range r.servers {
			c.conns, c.secondConns = append(c.conns, bench.Dial(one.Addr)), append(c.secondConns, bench.Dial(one.Addr))
		}
		all[i] = c
		working.Go(func() {
			defer c.close()
			for ctx.Err() == nil && !r.failed.Load() {
				c.step()
			}
		})
	}
	reads := r.watch(t, s)
	stop()
	working.Wait()
	var operations []*operation
	for _, c := range all {
		operations = append(operations, c.operations...)
		for _, wrong := range c.failures {
			t.Error(wrong)
		}
	}
	r.check(t, s, operations)
	for i, one := range r.servers {
		t.Logf("%-12s granted %d claims", one.name, r.granted[i].Load())
	}
	t.Logf("refused %d, moved %d, resized %d; 5xx responses of OpenStack's Placement: %d, duels "+
		"granted twice: %d; the database was read %d times during the race",
		r.refused.Load(), r.moved.Load(), r.resized.Load(), r.unclear.Load(), r.doubled.Load(), reads)
	r.checkCandidates(t, s)
	r.releaseAll(t, s, operations)
}

// build creates the providers through the first server, and waits until all servers return them.
func (r *race) build(t *testing.T) {
	t.Helper()
	c := bench.Dial(r.servers[0].Addr)
	defer c.Close()
	want(t, c, 201, "PUT", "/resource_classes/"+r.class, nil)
	add := func(name, parent string, stock map[string]int) string {
		id := provide(t, c, name, parent, stock)
		for class, n := range stock {
			r.base[inventory{id, class}] = n
			r.inventories = append(r.inventories, inventory{id, class})
		}
		return id
	}
	for i := range hosts {
		name := fmt.Sprintf("%s host %d", r.class, i)
		host := add(name, "", map[string]int{"VCPU": 6, "MEMORY_MB": 1024})
		for j := range devices {
			add(fmt.Sprintf("%s device %d", name, j), host, map[string]int{r.class: 3})
		}
	}
	for _, one := range r.servers {
		testenv.Until(t, one.name+" returns all candidates", func() error {
			c := bench.Dial(one.Addr)
			defer c.Close()
			found, err := r.ask(c, 1, 1)
			if err == nil && len(found) != hosts*devices {
				err = fmt.Errorf("%d candidates", len(found))
			}
			return err
		})
	}
}

// watch reads the database repeatedly until every server has granted enough claims.
func (r *race) watch(t *testing.T, s *site) (reads int) {
	t.Helper()
	testenv.Until(t, "every server grants claims", func() error {
		time.Sleep(150 * time.Millisecond)
		reads++
		if b := s.snapshot(t); len(b.violations) > 0 {
			t.Errorf("during the race: %s", strings.Join(b.violations, "; "))
			return nil
		}
		for i, one := range r.servers {
			if n := r.granted[i].Load(); n < int64(*claims) && !r.failed.Load() {
				return fmt.Errorf("%s has granted %d claims", one.name, n)
			}
		}
		return nil
	})
	return reads
}

// check compares the database with the recorded operations.
func (r *race) check(t *testing.T, s *site, operations []*operation) {
	t.Helper()
	b := s.snapshot(t)
	wrong, known := b.violations, map[string]bool{}
	for _, d := range operations {
		consumers := slices.Sorted(maps.Keys(d.held))
		if got := b.heldBy(consumers); got != d.held.String() && !slices.Contains(d.maybe, got) {
			wrong = append(wrong, fmt.Sprintf("the database has %s, recorded are %s (or %v): %s", got, d.held, d.maybe,
				strings.Join(d.log, "; ")))
		}
		for _, c := range consumers {
			known[c] = true
			if !b.consumers[c] && len(b.held[c]) > 0 {
				wrong = append(wrong, fmt.Sprintf("%s is not a consumer: %s", c, strings.Join(d.log, "; ")))
			}
			if b.consumers[c] && len(b.held[c]) == 0 && !d.touched {
				wrong = append(wrong, fmt.Sprintf("%s is a consumer without allocations; Berth deletes such consumers", c))
			}
		}
	}
	for c, held := range b.held {
		for id := range held {
			if r.base[inventory{id, r.class}]+r.base[inventory{id, "VCPU"}] > 0 && !known[c] {
				wrong = append(wrong, fmt.Sprintf("%s holds %v, but was never claimed", c, held))
				break
			}
		}
	}
	for _, sentence := range wrong[:min(len(wrong), 20)] {
		t.Error(sentence)
	}
}

// checkCandidates waits until the candidates of every server have the usage that the database has.
func (r *race) checkCandidates(t *testing.T, s *site) {
	t.Helper()
	used := map[inventory]int{}
	for _, held := range s.snapshot(t).held {
		for id, share := range held {
			for class, n := range share.Resources {
				used[inventory{id, class}] += n
			}
		}
	}
	for _, one := range r.servers {
		c := bench.Dial(one.Addr)
		defer c.Close()
		testenv.Until(t, one.name+" returns the present usage", func() error {
			for _, at := range r.inventories {
				var doc struct {
					Summaries map[string]struct {
						Resources map[string]struct{ Used int }
					} `json:"provider_summaries"`
				}
				answer, err := c.Want(200, "GET", "/allocation_candidates?resources="+at.class+":1&in_tree="+at.provider, nil)
				if err == nil {
					err = json.Unmarshal(answer, &doc)
				}
				if err != nil {
					return err
				}
				for id, summary := range doc.Summaries {
					for class, has := range summary.Resources {
						if want := used[inventory{id, class}]; has.Used != want {
							return fmt.Errorf("%d of %s on %s, the database has %d", has.Used, class, id, want)
						}
					}
				}
			}
			return nil
		})
	}
}

// releaseAll releases all consumers, through all servers in turn. Then no allocation is left.
func (r *race) releaseAll(t *testing.T, s *site, operations []*operation) {
	t.Helper()
	n := 0
	for consumer, held := range s.snapshot(t).held {
		for id := range held {
			if r.base[inventory{id, r.class}]+r.base[inventory{id, "VCPU"}] > 0 {
				c := bench.Dial(r.servers[n%len(r.servers)].Addr)
				want(t, c, 204, "DELETE", "/allocations/"+consumer, nil)
				c.Close()
				n++
				break
			}
		}
	}
	b := s.snapshot(t)
	for _, d := range operations {
		for c := range d.held {
			if len(b.held[c]) > 0 {
				t.Errorf("%s was released and holds %v", c, b.held[c])
			}
		}
	}
}

// ask requests candidates.
func (r *race) ask(c *bench.Conn, size, pairs int) ([]allocation, error) {
	target := fmt.Sprintf("/allocation_candidates?resources=VCPU:%d,MEMORY_MB:%d&group_policy=isolate&limit=10", size,
		32*size)
	for i := range pairs {
		target += fmt.Sprintf("&resources%d=%s:1", i+1, r.class)
	}
	answer, err := c.Want(200, "GET", target, nil)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Requests []struct{ Allocations allocation } `json:"allocation_requests"`
	}
	err = json.Unmarshal(answer, &doc)
	list := make([]allocation, len(doc.Requests))
	for i, one := range doc.Requests {
		list[i] = one.Allocations
	}
	return list, err
}

// want sends a request that must return this status.
func want(t *testing.T, c *bench.Conn, status int, method, target string, body any) []byte {
	t.Helper()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := c.Want(status, method, target, data)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(answer)
}

// provide creates a provider with inventories. Its generation is then 1.
func provide(t *testing.T, c *bench.Conn, name, parent string, stock map[string]int) string {
	t.Helper()
	id := uuid.NewString()
	made := map[string]any{"uuid": id, "name": name}
	if parent != "" {
		made["parent_provider_uuid"] = parent
	}
	want(t, c, 200, "POST", "/resource_providers", made)
	all := map[string]any{}
	for class, n := range stock {
		all[class] = map[string]int{"total": n}
	}
	want(t, c, 200, "PUT", "/resource_providers/"+id+"/inventories", map[string]any{"resource_provider_generation": 0,
		"inventories": all})
	return id
}

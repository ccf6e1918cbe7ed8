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
)

const (
	clients = 12
	hosts   = 4
	devices = 2 // of each host
	liked   = 3 // how many deeds a client likes to have open: together far more than there is
)

// race is clients of all servers on a world that is too small for them.
type race struct {
	servers []*server
	class   string         // of the devices; nobody else's
	base    map[spot]int   // what each inventory has at the most
	spots   []spot         // its keys
	granted []atomic.Int64 // claims, by server
	refused atomic.Int64
	moved   atomic.Int64
	resized atomic.Int64
	failed  atomic.Bool
	unclear atomic.Int64 // answers 5xx of the original
	doubled atomic.Int64 // duels that two servers granted, the original one of them
}

// spot is one inventory.
type spot struct{ provider, class string }

// deed is what clients did to some consumers, and what the books may say of these now.
type deed struct {
	held    state
	may     []string // beside held: what an answer 5xx left open
	touched bool     // the original has refused one of these: it may have left the consumer without anything
	story   []string // for people
	done    bool     // nobody touches it any more
}

// client is one of them.
type client struct {
	*race
	chance *rand.Rand
	conns  []*bench.Conn // one to each server
	rivals []*bench.Conn // and another, for duels
	deeds  []*deed
	wrong  []string
}

func (s *site) races(t *testing.T) {
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { s.raceOnce(t, seed) })
	}
}

func (s *site) raceOnce(t *testing.T, seed uint64) {
	r := &race{servers: s.servers, class: "CUSTOM_RACE_" + strings.ToUpper(uuid.NewString()[:8]), base: map[spot]int{},
		granted: make([]atomic.Int64, len(s.servers))}
	r.build(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working sync.WaitGroup
	all := make([]*client, clients)
	for i := range all {
		c := &client{race: r, chance: rand.New(rand.NewPCG(seed, uint64(i)))}
		for _, one := range r.servers {
			c.conns, c.rivals = append(c.conns, bench.Dial(one.Addr)), append(c.rivals, bench.Dial(one.Addr))
		}
		all[i] = c
		working.Go(func() {
			defer c.close()
			for ctx.Err() == nil && !r.failed.Load() {
				c.work()
			}
		})
	}
	looks := r.watch(t, s)
	stop()
	working.Wait()
	var deeds []*deed
	for _, c := range all {
		deeds = append(deeds, c.deeds...)
		for _, wrong := range c.wrong {
			t.Error(wrong)
		}
	}
	r.check(t, s, deeds)
	for i, one := range r.servers {
		t.Logf("%-12s granted %d claims", one.name, r.granted[i].Load())
	}
	t.Logf("refused %d, moved %d, resized %d; the original answered 5xx %d times and granted %d times what a rival had "+
		"been granted; the books were read %d times on the way",
		r.refused.Load(), r.moved.Load(), r.resized.Load(), r.unclear.Load(), r.doubled.Load(), looks)
	r.agree(t, s)
	r.sweep(t, s, deeds)
}

// build makes the world through the first server, and waits until all know it.
func (r *race) build(t *testing.T) {
	t.Helper()
	c := bench.Dial(r.servers[0].Addr)
	defer c.Close()
	want(t, c, 201, "PUT", "/resource_classes/"+r.class, nil)
	add := func(name, parent string, stock map[string]int) string {
		id := provide(t, c, name, parent, stock)
		for class, n := range stock {
			r.base[spot{id, class}] = n
			r.spots = append(r.spots, spot{id, class})
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
		eventually(t, one.name+" knows the world", func() error {
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

// watch reads the books again and again until every server has granted enough.
func (r *race) watch(t *testing.T, s *site) (looks int) {
	t.Helper()
	eventually(t, "every server grants", func() error {
		time.Sleep(150 * time.Millisecond)
		looks++
		if b := s.keep(t); len(b.wrong) > 0 {
			t.Errorf("on the way: %s", strings.Join(b.wrong, "; "))
			return nil
		}
		for i, one := range r.servers {
			if n := r.granted[i].Load(); n < int64(*claims) && !r.failed.Load() {
				return fmt.Errorf("%s has granted %d claims", one.name, n)
			}
		}
		return nil
	})
	return looks
}

// check holds the books against what the clients were told.
func (r *race) check(t *testing.T, s *site, deeds []*deed) {
	t.Helper()
	b := s.keep(t)
	wrong, known := b.wrong, map[string]bool{}
	for _, d := range deeds {
		consumers := slices.Sorted(maps.Keys(d.held))
		if got := b.of(consumers); got != d.held.String() && !slices.Contains(d.may, got) {
			wrong = append(wrong, fmt.Sprintf("the books say %s, the clients were told %s (or %v): %s", got, d.held, d.may,
				strings.Join(d.story, "; ")))
		}
		for _, c := range consumers {
			known[c] = true
			if !b.consumers[c] && len(b.held[c]) > 0 {
				wrong = append(wrong, fmt.Sprintf("%s is no consumer: %s", c, strings.Join(d.story, "; ")))
			}
			if b.consumers[c] && len(b.held[c]) == 0 && !d.touched {
				wrong = append(wrong, fmt.Sprintf("%s is a consumer and holds nothing; Berth leaves no such", c))
			}
		}
	}
	for c, held := range b.held {
		for id := range held {
			if r.base[spot{id, r.class}]+r.base[spot{id, "VCPU"}] > 0 && !known[c] {
				wrong = append(wrong, fmt.Sprintf("%s holds %v and nobody ever asked for it", c, held))
				break
			}
		}
	}
	for _, sentence := range wrong[:min(len(wrong), 20)] {
		t.Error(sentence)
	}
}

// agree waits until the candidates of every server are those of the books.
func (r *race) agree(t *testing.T, s *site) {
	t.Helper()
	used := map[spot]int{}
	for _, held := range s.keep(t).held {
		for id, share := range held {
			for class, n := range share.Resources {
				used[spot{id, class}] += n
			}
		}
	}
	for _, one := range r.servers {
		c := bench.Dial(one.Addr)
		defer c.Close()
		eventually(t, one.name+" sees what is taken", func() error {
			for _, at := range r.spots {
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
						if want := used[spot{id, class}]; has.Used != want {
							return fmt.Errorf("%d of %s on %s, the books say %d", has.Used, class, id, want)
						}
					}
				}
			}
			return nil
		})
	}
}

// sweep lets everything go, by all servers in turn. Then the books are empty.
func (r *race) sweep(t *testing.T, s *site, deeds []*deed) {
	t.Helper()
	n := 0
	for consumer, held := range s.keep(t).held {
		for id := range held {
			if r.base[spot{id, r.class}]+r.base[spot{id, "VCPU"}] > 0 {
				c := bench.Dial(r.servers[n%len(r.servers)].Addr)
				want(t, c, 204, "DELETE", "/allocations/"+consumer, nil)
				c.Close()
				n++
				break
			}
		}
	}
	b := s.keep(t)
	for _, d := range deeds {
		for c := range d.held {
			if len(b.held[c]) > 0 {
				t.Errorf("%s was let go and holds %v", c, b.held[c])
			}
		}
	}
}

// ask asks for candidates.
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

// want asks for what must be answered with this status.
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

// provide makes a provider with inventories. Its generation is then 1.
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

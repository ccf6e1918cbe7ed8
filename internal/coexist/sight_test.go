package coexist

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/bench"
)

// sees lets the original and a Berth write, and all servers look.
func (s *site) sees(t *testing.T) {
	writers := []*server{s.servers[0], s.servers[len(s.servers)-1]}
	for _, writer := range writers {
		t.Run(writer.name+" writes", func(t *testing.T) {
			e := &eyes{t: t, writer: writer, hand: bench.Dial(writer.Addr), servers: s.servers}
			defer e.hand.Close()
			e.story()
			e.tell()
		})
	}
}

// eyes look at what a writer has written.
type eyes struct {
	t       *testing.T
	writer  *server
	hand    *bench.Conn // the writer's
	servers []*server
	lags    []time.Duration // until a Berth saw what another had written
}

// candidates is an answer for candidates.
type candidates struct {
	status    int
	Requests  []struct{ Allocations allocation } `json:"allocation_requests"`
	Summaries map[string]struct {
		Resources map[string]struct{ Capacity, Used int }
		Parent    string `json:"parent_provider_uuid"`
		Root      string `json:"root_provider_uuid"`
	} `json:"provider_summaries"`
}

// many says whether there are so many candidates.
func many(n int) func(candidates) bool {
	return func(c candidates) bool { return c.status == 200 && len(c.Requests) == n }
}

func refused(c candidates) bool { return c.status == 400 }

// shows waits until every server's candidates are what the last write made them. The original and who wrote must show
// it at once, another Berth once its index is younger than the write; then it must.
func (e *eyes) shows(what, query string, is func(candidates) bool) {
	e.t.Helper()
	wrote := time.Now()
	for _, one := range e.servers {
		c := bench.Dial(one.Addr)
		eventually(e.t, one.name+" sees "+what, func() error {
			from, err := asOf(c, one)
			if err != nil {
				return err
			}
			var doc candidates
			status, answer, err := c.Do("GET", "/allocation_candidates?"+query, nil)
			if err == nil && status == 200 {
				err = json.Unmarshal(answer, &doc)
			}
			if err != nil {
				return err
			}
			doc.status = status
			switch {
			case is(doc):
				if !one.original && one != e.writer {
					e.lags = append(e.lags, time.Since(wrote))
				}
				return nil
			case one.original || one == e.writer || from.After(wrote):
				e.t.Fatalf("%s does not see %s that %s wrote: %s is answered %d %s", one.name, what, e.writer.name, query, status,
					answer)
			}
			return errors.New("not yet")
		})
		c.Close()
	}
}

// asOf is the moment as of which a Berth at least knows what others wrote: what it says of its index's age. The
// original keeps no picture.
func asOf(c *bench.Conn, one *server) (time.Time, error) {
	now := time.Now()
	if one.original {
		return now, nil
	}
	text, err := c.Want(200, "GET", "/metrics", nil)
	if err != nil {
		return now, err
	}
	for line := range strings.Lines(string(text)) {
		if age, ok := strings.CutPrefix(line, "berth_placement_index_age_seconds "); ok {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(age), 64)
			return now.Add(-time.Duration(seconds * float64(time.Second))), err
		}
	}
	return now, errors.New("/metrics does not tell the age of the index")
}

func (e *eyes) tell() {
	if len(e.lags) == 0 {
		return // nobody but the writer keeps a picture
	}
	slices.Sort(e.lags)
	e.t.Logf("%d times a Berth saw what %s wrote after %s (median), %s at the most; it looks every %s", len(e.lags),
		e.writer.name,
		e.lags[len(e.lags)/2].Round(time.Millisecond), e.lags[len(e.lags)-1].Round(time.Millisecond), *interval)
}

func (e *eyes) do(status int, method, target string, body any) []byte {
	e.t.Helper()
	return want(e.t, e.hand, status, method, target, body)
}

// generation is a provider's.
func (e *eyes) generation(id string) int {
	e.t.Helper()
	var doc struct{ Generation int }
	if err := json.Unmarshal(e.do(200, "GET", "/resource_providers/"+id, nil), &doc); err != nil {
		e.t.Fatal(err)
	}
	return doc.Generation
}

// set writes a part of a provider, guarded by its generation.
func (e *eyes) set(id, part string, body map[string]any) {
	e.t.Helper()
	body["resource_provider_generation"] = e.generation(id)
	e.do(200, "PUT", "/resource_providers/"+id+part, body)
}

// story is every kind of write, each with a question whose answer it changes.
func (e *eyes) story() {
	mark := strings.ToUpper(uuid.NewString()[:8])
	class, trait, group := "CUSTOM_SIGHT_"+mark, "CUSTOM_SEEN_"+mark, uuid.NewString()
	e.do(201, "PUT", "/resource_classes/"+class, nil)
	e.shows("a new class", "resources="+class+":1", many(0))
	e.do(201, "PUT", "/traits/"+trait, nil)
	e.shows("a new trait", "resources="+class+":1&required="+trait, many(0))
	host := provide(e.t, e.hand, "host "+mark, "", map[string]int{class: 4})
	e.shows("a new provider", "resources="+class+":1", many(1))
	e.set(host, "/traits", map[string]any{"traits": []string{trait}})
	e.shows("its trait", "resources="+class+":1&required="+trait, many(1))
	e.set(host, "/aggregates", map[string]any{"aggregates": []string{group}})
	e.shows("its aggregate", "resources="+class+":1&member_of="+group, many(1))
	e.set(host, "/inventories/"+class, map[string]any{"total": 8})
	e.shows("a larger total", "resources="+class+":8", many(1))
	e.do(200, "PUT", "/resource_providers/"+host, map[string]any{"name": "renamed " + mark})
	e.lists("renamed "+mark, host)
	e.uses(class, host)
	e.moves(class, host, mark)
	e.set(host, "/aggregates", map[string]any{"aggregates": []string{}})
	e.shows("that the aggregate is left", "resources="+class+":1&member_of="+group, many(0))
	e.set(host, "/traits", map[string]any{"traits": []string{}})
	e.shows("that the trait is taken off", "resources="+class+":1&required="+trait, many(0))
	e.do(204, "DELETE", "/resource_providers/"+host, nil)
	e.shows("that the provider is gone", "resources="+class+":1", many(0))
	e.do(204, "DELETE", "/resource_classes/"+class, nil)
	e.do(204, "DELETE", "/traits/"+trait, nil)
	e.gone("resources="+class+":1", "resources=VCPU:1&required="+trait)
}

// lists: what is read from the database is what it says, on every server.
func (e *eyes) lists(name, id string) {
	for _, one := range e.servers {
		c := bench.Dial(one.Addr)
		defer c.Close()
		if answer := want(e.t, c, 200, "GET", "/resource_providers?name="+strings.ReplaceAll(name, " ", "%20"),
			nil); !strings.Contains(string(answer), id) {
			e.t.Errorf("%s does not list the new name of %s: %s", one.name, id, answer)
		}
	}
}

// uses claims, moves a claim and lets go. Letting go raises no generation in the original.
func (e *eyes) uses(class, host string) {
	other := provide(e.t, e.hand, "other "+uuid.NewString(), "", map[string]int{class: 8})
	e.shows("another provider", "resources="+class+":8", many(2))
	consumer := uuid.NewString()
	e.do(204, "PUT", "/allocations/"+consumer, claimOf(allocation{host: {map[string]int{class: 5}}}, nil))
	e.shows("a claim", "resources="+class+":8&in_tree="+host, many(0))
	e.shows("how much is taken", "resources="+class+":1&in_tree="+host,
		func(c candidates) bool { return c.Summaries[host].Resources[class].Used == 5 })
	e.do(204, "PUT", "/allocations/"+consumer, claimOf(allocation{other: {map[string]int{class: 2}}}, 1))
	e.shows("that a claim has left", "resources="+class+":8&in_tree="+host, many(1))
	e.shows("where it went", "resources="+class+":8&in_tree="+other, many(0))
	e.do(204, "DELETE", "/allocations/"+consumer, nil)
	e.shows("that a claim is gone", "resources="+class+":8", many(2))
	e.do(204, "DELETE", "/resource_providers/"+other, nil)
	e.shows("that a provider is gone", "resources="+class+":8", many(1))
}

// moves puts a provider under another, reshapes, and takes it out again.
func (e *eyes) moves(class, host, mark string) {
	root := provide(e.t, e.hand, "root "+mark, "", map[string]int{"DISK_GB": 10})
	name := "renamed " + mark
	e.do(200, "PUT", "/resource_providers/"+host, map[string]any{"name": name, "parent_provider_uuid": root})
	e.shows("a new parent", "resources="+class+":1&in_tree="+root, func(c candidates) bool {
		return len(c.Requests) == 1 && c.Summaries[host].Parent == root && c.Summaries[host].Root == root
	})
	consumer := uuid.NewString()
	held := claimOf(allocation{root: {map[string]int{class: 3}}}, nil)
	e.do(204, "POST", "/reshaper", map[string]any{
		"inventories": map[string]any{
			host: map[string]any{"resource_provider_generation": e.generation(host), "inventories": map[string]any{}},
			root: map[string]any{"resource_provider_generation": e.generation(root),
				"inventories": map[string]any{class: map[string]int{"total": 8}}},
		},
		"allocations": map[string]any{consumer: held},
	})
	e.shows("a reshape", "resources="+class+":1", func(c candidates) bool {
		return len(c.Requests) == 1 && c.Summaries[root].Resources[class].Used == 3 && len(c.Summaries[host].Resources) == 0
	})
	e.do(204, "DELETE", "/allocations/"+consumer, nil)
	e.set(host, "/inventories", map[string]any{"inventories": map[string]any{class: map[string]int{"total": 1}}})
	e.set(root, "/inventories", map[string]any{"inventories": map[string]any{}})
	e.shows("inventories that have changed their places", "resources="+class+":1", func(c candidates) bool {
		return len(c.Requests) == 1 && c.Summaries[host].Resources[class].Capacity == 1
	})
	e.do(200, "PUT", "/resource_providers/"+host, map[string]any{"name": name, "parent_provider_uuid": nil})
	e.shows("that it has no parent any more", "resources="+class+":1&in_tree="+root, many(0))
	e.do(204, "DELETE", "/resource_providers/"+root, nil)
	e.shows("that the parent is gone", "resources="+class+":1&in_tree="+host, many(1))
}

// gone: a class and a trait that were deleted are refused by every Berth. Each process of the original keeps names that
// it has once read.
func (e *eyes) gone(queries ...string) {
	all := e.servers
	e.servers = slices.DeleteFunc(slices.Clone(all), func(s *server) bool { return s.original })
	for _, query := range queries {
		e.shows(fmt.Sprintf("that a name in %q is gone", query), query, refused)
	}
	e.servers = all
}

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
	"github.com/openberth/berth/internal/testenv"
)

// visibility writes through OpenStack's Placement and through a Berth, and reads from all servers.
func (s *site) visibility(t *testing.T) {
	writers := []*server{s.servers[0], s.servers[len(s.servers)-1]}
	for _, writer := range writers {
		t.Run(writer.name+" writes", func(t *testing.T) {
			e := &observer{t: t, writer: writer, conn: bench.Dial(writer.Addr), servers: s.servers}
			defer e.conn.Close()
			e.writeEverything()
			e.logDelays()
		})
	}
}

// observer checks that all servers return what one server has written.
type observer struct {
	t       *testing.T
	writer  *server
	conn    *bench.Conn // to the writer
	servers []*server
	delays  []time.Duration // until a Berth returned what another server had written
}

// candidates is a response with candidates.
type candidates struct {
	status    int
	Requests  []struct{ Allocations allocation } `json:"allocation_requests"`
	Summaries map[string]struct {
		Resources map[string]struct{ Capacity, Used int }
		Parent    string `json:"parent_provider_uuid"`
		Root      string `json:"root_provider_uuid"`
	} `json:"provider_summaries"`
}

// exactly returns a condition: the response has n candidates.
func exactly(n int) func(candidates) bool {
	return func(c candidates) bool { return c.status == 200 && len(c.Requests) == n }
}

func isRefused(c candidates) bool { return c.status == 400 }

// await waits until the candidates of every server reflect the last write. OpenStack's Placement and the writer must
// reflect it immediately; another Berth must reflect it as soon as its index is newer than the write.
func (e *observer) await(what, query string, is func(candidates) bool) {
	e.t.Helper()
	wrote := time.Now()
	for _, one := range e.servers {
		c := bench.Dial(one.Addr)
		testenv.Until(e.t, one.name+" reflects "+what, func() error {
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
					e.delays = append(e.delays, time.Since(wrote))
				}
				return nil
			case one.original || one == e.writer || from.After(wrote):
				e.t.Fatalf("%s does not reflect %s that %s wrote: the response to %s is %d %s", one.name, what, e.writer.name,
					query, status,
					answer)
			}
			return errors.New("not yet")
		})
		c.Close()
	}
}

// asOf returns the time as of which a server reflects all writes: for Berth the present time minus the age of its
// index, for OpenStack's Placement, which has no index, the present time.
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
	return now, errors.New("/metrics does not contain the age of the index")
}

// logDelays logs the delays with which Berths reflected writes.
func (e *observer) logDelays() {
	if len(e.delays) == 0 {
		return // no other server has an index
	}
	slices.Sort(e.delays)
	e.t.Logf("%d writes of %s were visible in a Berth after %s (median), at most %s; the poll interval is %s",
		len(e.delays),
		e.writer.name,
		e.delays[len(e.delays)/2].Round(time.Millisecond), e.delays[len(e.delays)-1].Round(time.Millisecond), *interval)
}

func (e *observer) do(status int, method, target string, body any) []byte {
	e.t.Helper()
	return want(e.t, e.conn, status, method, target, body)
}

// generation returns the generation of a provider.
func (e *observer) generation(id string) int {
	e.t.Helper()
	var doc struct{ Generation int }
	if err := json.Unmarshal(e.do(200, "GET", "/resource_providers/"+id, nil), &doc); err != nil {
		e.t.Fatal(err)
	}
	return doc.Generation
}

// set writes one part of a provider with its generation.
func (e *observer) set(id, part string, body map[string]any) {
	e.t.Helper()
	body["resource_provider_generation"] = e.generation(id)
	e.do(200, "PUT", "/resource_providers/"+id+part, body)
}

// writeEverything executes every kind of write; after each it awaits a changed response to a query.
func (e *observer) writeEverything() {
	mark := strings.ToUpper(uuid.NewString()[:8])
	class, trait, group := "CUSTOM_SIGHT_"+mark, "CUSTOM_SEEN_"+mark, uuid.NewString()
	e.do(201, "PUT", "/resource_classes/"+class, nil)
	e.await("a new class", "resources="+class+":1", exactly(0))
	e.do(201, "PUT", "/traits/"+trait, nil)
	e.await("a new trait", "resources="+class+":1&required="+trait, exactly(0))
	host := provide(e.t, e.conn, "host "+mark, "", map[string]int{class: 4})
	e.await("a new provider", "resources="+class+":1", exactly(1))
	e.set(host, "/traits", map[string]any{"traits": []string{trait}})
	e.await("its trait", "resources="+class+":1&required="+trait, exactly(1))
	e.set(host, "/aggregates", map[string]any{"aggregates": []string{group}})
	e.await("its aggregate", "resources="+class+":1&member_of="+group, exactly(1))
	e.set(host, "/inventories/"+class, map[string]any{"total": 8})
	e.await("a larger total", "resources="+class+":8", exactly(1))
	e.do(200, "PUT", "/resource_providers/"+host, map[string]any{"name": "renamed " + mark})
	e.checkName("renamed "+mark, host)
	e.claimAndRelease(class, host)
	e.reparent(class, host, mark)
	e.set(host, "/aggregates", map[string]any{"aggregates": []string{}})
	e.await("the removal of the aggregate", "resources="+class+":1&member_of="+group, exactly(0))
	e.set(host, "/traits", map[string]any{"traits": []string{}})
	e.await("the removal of the trait", "resources="+class+":1&required="+trait, exactly(0))
	e.do(204, "DELETE", "/resource_providers/"+host, nil)
	e.await("the deletion of the provider", "resources="+class+":1", exactly(0))
	e.do(204, "DELETE", "/resource_classes/"+class, nil)
	e.do(204, "DELETE", "/traits/"+trait, nil)
	e.checkNamesDeleted("resources="+class+":1", "resources=VCPU:1&required="+trait)
}

// checkName checks that every server returns the new name of a provider.
func (e *observer) checkName(name, id string) {
	for _, one := range e.servers {
		c := bench.Dial(one.Addr)
		defer c.Close()
		if answer := want(e.t, c, 200, "GET", "/resource_providers?name="+strings.ReplaceAll(name, " ", "%20"),
			nil); !strings.Contains(string(answer), id) {
			e.t.Errorf("%s does not list the new name of %s: %s", one.name, id, answer)
		}
	}
}

// claimAndRelease claims, moves the claim and releases it. A release does not increment a generation in OpenStack's
// Placement.
func (e *observer) claimAndRelease(class, host string) {
	other := provide(e.t, e.conn, "other "+uuid.NewString(), "", map[string]int{class: 8})
	e.await("another provider", "resources="+class+":8", exactly(2))
	consumer := uuid.NewString()
	e.do(204, "PUT", "/allocations/"+consumer, claimOf(allocation{host: {map[string]int{class: 5}}}, nil))
	e.await("a claim", "resources="+class+":8&in_tree="+host, exactly(0))
	e.await("the usage", "resources="+class+":1&in_tree="+host,
		func(c candidates) bool { return c.Summaries[host].Resources[class].Used == 5 })
	e.do(204, "PUT", "/allocations/"+consumer, claimOf(allocation{other: {map[string]int{class: 2}}}, 1))
	e.await("that the claim has moved away", "resources="+class+":8&in_tree="+host, exactly(1))
	e.await("where the claim has moved", "resources="+class+":8&in_tree="+other, exactly(0))
	e.do(204, "DELETE", "/allocations/"+consumer, nil)
	e.await("the release", "resources="+class+":8", exactly(2))
	e.do(204, "DELETE", "/resource_providers/"+other, nil)
	e.await("the deletion of a provider", "resources="+class+":8", exactly(1))
}

// reparent moves a provider below another one, reshapes, and moves it back.
func (e *observer) reparent(class, host, mark string) {
	root := provide(e.t, e.conn, "root "+mark, "", map[string]int{"DISK_GB": 10})
	name := "renamed " + mark
	e.do(200, "PUT", "/resource_providers/"+host, map[string]any{"name": name, "parent_provider_uuid": root})
	e.await("a new parent", "resources="+class+":1&in_tree="+root, func(c candidates) bool {
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
	e.await("a reshape", "resources="+class+":1", func(c candidates) bool {
		return len(c.Requests) == 1 && c.Summaries[root].Resources[class].Used == 3 && len(c.Summaries[host].Resources) == 0
	})
	e.do(204, "DELETE", "/allocations/"+consumer, nil)
	e.set(host, "/inventories", map[string]any{"inventories": map[string]any{class: map[string]int{"total": 1}}})
	e.set(root, "/inventories", map[string]any{"inventories": map[string]any{}})
	e.await("moved inventories", "resources="+class+":1", func(c candidates) bool {
		return len(c.Requests) == 1 && c.Summaries[host].Resources[class].Capacity == 1
	})
	e.do(200, "PUT", "/resource_providers/"+host, map[string]any{"name": name, "parent_provider_uuid": nil})
	e.await("the removal of the parent", "resources="+class+":1&in_tree="+root, exactly(0))
	e.do(204, "DELETE", "/resource_providers/"+root, nil)
	e.await("the deletion of the parent", "resources="+class+":1&in_tree="+host, exactly(1))
}

// checkNamesDeleted checks that every Berth rejects a deleted class and a deleted trait. Processes of OpenStack's
// Placement keep names that they have once read.
func (e *observer) checkNamesDeleted(queries ...string) {
	all := e.servers
	e.servers = slices.DeleteFunc(slices.Clone(all), func(s *server) bool { return s.original })
	for _, query := range queries {
		e.await(fmt.Sprintf("the deletion of a name in %q", query), query, isRefused)
	}
	e.servers = all
}

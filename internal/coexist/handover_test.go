package coexist

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/internal/bench"
	"github.com/openberth/berth/sqldb"
)

// handsOver lets the original fill the database, Berth read it, Berth write to it, and the original take it back. It
// begins and ends with the original alone.
func (s *site) handsOver(t *testing.T) {
	original := s.servers[0]
	filled := fill(t, original)
	before := s.dump(t)
	berth := s.startBerth()
	told := walk(t, original) // only now, for Berth has added names of traits that are newer than the original
	same(t, "Berth reads what the original wrote", told, walk(t, berth))
	unchanged(t, before, s.dump(t))

	s.servers = []*server{original}
	s.stop(t)
	change(t, berth, filled)
	told = walk(t, berth)
	s.servers = []*server{berth}
	s.stop(t)
	before = s.dump(t)
	original = s.startOriginal()
	same(t, "the original reads what Berth wrote", told, walk(t, original))
	if changed := difference(before, s.dump(t)); len(changed) > 0 {
		t.Errorf("the original, coming back, changed %v", changed)
	}
	change(t, original, fill(t, original))
	if b := s.keep(t); len(b.wrong) > 0 {
		t.Error(b.wrong)
	}
}

// content is what one filling made.
type content struct {
	host, device, spare, consumer, group string
	class, trait                         string
}

// fill writes some of everything.
func fill(t *testing.T, by *server) content {
	t.Helper()
	e := &eyes{t: t, hand: bench.Dial(by.Addr)}
	defer e.hand.Close()
	mark := strings.ToUpper(uuid.NewString()[:8])
	f := content{class: "CUSTOM_VF_" + mark, trait: "CUSTOM_PF_" + mark, group: uuid.NewString(),
		consumer: uuid.NewString()}
	e.do(201, "PUT", "/resource_classes/"+f.class, nil)
	e.do(201, "PUT", "/traits/"+f.trait, nil)
	f.host = provide(t, e.hand, "Wirt ü 主机 "+mark, "", map[string]int{"MEMORY_MB": 4096})
	f.spare = provide(t, e.hand, "spare "+mark, "", map[string]int{"VCPU": 4})
	f.device = provide(t, e.hand, "device "+mark, f.host, map[string]int{f.class: 8})
	e.set(f.host, "/inventories", map[string]any{"inventories": map[string]any{
		"VCPU":      map[string]any{"total": 8, "allocation_ratio": 1.5, "reserved": 1, "max_unit": 6},
		"MEMORY_MB": map[string]any{"total": 4096, "min_unit": 64, "step_size": 64}}})
	e.set(f.device, "/traits", map[string]any{"traits": []string{f.trait, "HW_NIC_SRIOV"}})
	e.set(f.host, "/aggregates", map[string]any{"aggregates": []string{f.group, uuid.NewString()}})
	e.do(204, "PUT", "/allocations/"+f.consumer, claimOf(allocation{f.host: {map[string]int{"VCPU": 2, "MEMORY_MB": 128}},
		f.device: {map[string]int{f.class: 2}}}, nil))
	for _, kind := range []string{"VOLUME", "MIGRATION"} {
		more := claimOf(allocation{f.device: {map[string]int{f.class: 1}}}, nil)
		more["consumer_type"], more["user_id"] = kind, "another "+mark
		e.do(204, "PUT", "/allocations/"+uuid.NewString(), more)
	}
	return f
}

// change writes over everything that was filled.
func change(t *testing.T, by *server, f content) {
	t.Helper()
	e := &eyes{t: t, hand: bench.Dial(by.Addr)}
	defer e.hand.Close()
	mark := uuid.NewString()[:8]
	e.do(204, "POST", "/allocations", map[string]any{
		f.consumer:       claimOf(allocation{f.spare: {map[string]int{"VCPU": 3}}}, 1),
		uuid.NewString(): claimOf(allocation{f.host: {map[string]int{"VCPU": 2, "MEMORY_MB": 128}}}, nil)})
	gone := uuid.NewString()
	e.do(204, "PUT", "/allocations/"+gone, claimOf(allocation{f.host: {map[string]int{"VCPU": 1}}}, nil))
	e.do(204, "DELETE", "/allocations/"+gone, nil)
	e.do(200, "PUT", "/resource_providers/"+f.spare, map[string]any{"name": "Ersatz ß " + mark,
		"parent_provider_uuid": f.host})
	e.set(f.spare, "/inventories/VCPU", map[string]any{"total": 16, "allocation_ratio": 2.5})
	e.set(f.device, "/traits", map[string]any{"traits": []string{"HW_NIC_SRIOV"}})
	e.set(f.host, "/aggregates", map[string]any{"aggregates": []string{f.group}})
	e.do(204, "DELETE", "/traits/"+f.trait, nil)
	more := provide(t, e.hand, "more "+mark, f.device, map[string]int{"DISK_GB": 100})
	e.do(201, "PUT", "/resource_classes/CUSTOM_MORE_"+strings.ToUpper(mark), nil)
	e.set(more, "/inventories",
		map[string]any{"inventories": map[string]any{"CUSTOM_MORE_" + strings.ToUpper(mark): map[string]int{"total": 3}}})
	e.do(204, "DELETE", "/resource_providers/"+provide(t, e.hand, "short-lived "+mark, "", map[string]int{"VCPU": 1}), nil)
}

// unable is the original's answer about a project's usages on PostgreSQL, at the microversions that tell consumer
// types: 500, for its question is one that PostgreSQL refuses.
const unable = "500"

// walk asks a server for all that it has, and gives each answer in a form in which the order of lists does not matter.
func walk(t *testing.T, one *server) map[string]string {
	t.Helper()
	c := bench.Dial(one.Addr)
	defer c.Close()
	told := map[string]string{}
	ask := func(target string, into any) {
		status, answer, err := c.Do("GET", target, nil)
		if err == nil && status == 500 && one.original && strings.HasPrefix(target, "/usages?") {
			told[target] = unable
			return
		}
		if err != nil || status != 200 {
			t.Fatalf("%s: GET %s: %d %.500s %v", one.name, target, status, answer, err)
		}
		var all any
		if err := json.Unmarshal(answer, &all); err != nil {
			t.Fatal(err)
		}
		told[target] = sorted(all)
		if into != nil {
			if err := json.Unmarshal(answer, into); err != nil {
				t.Fatal(err)
			}
		}
	}
	var list struct {
		All []struct{ UUID string } `json:"resource_providers"`
	}
	ask("/resource_providers", &list)
	consumers := map[string]bool{}
	for _, p := range list.All {
		at := "/resource_providers/" + p.UUID
		for _, part := range []string{"", "/inventories", "/usages", "/aggregates", "/traits"} {
			ask(at+part, nil)
		}
		var held struct{ Allocations map[string]any }
		ask(at+"/allocations", &held)
		for consumer := range held.Allocations {
			consumers[consumer] = true
		}
		ask("/allocation_candidates?resources=VCPU:1&in_tree="+p.UUID, nil)
		ask("/resource_providers?in_tree="+p.UUID, nil)
	}
	if len(list.All) < 3 || len(consumers) < 3 {
		t.Fatalf("%d providers and %d consumers are too few", len(list.All), len(consumers))
	}
	for consumer := range consumers {
		ask("/allocations/"+consumer, nil)
	}
	for _, target := range []string{"/resource_classes", "/traits", "/traits?associated=true",
		"/usages?project_id=" + project, "/usages?project_id=" + project + "&user_id=" + user,
		"/allocation_candidates?resources=VCPU:1", "/allocation_candidates?resources=VCPU:1,MEMORY_MB:64",
		"/resource_providers?resources=VCPU:1", "/resource_providers?required=HW_NIC_SRIOV"} {
		ask(target, nil)
	}
	return told
}

// sorted writes a JSON value with its lists in order.
func sorted(value any) string {
	switch v := value.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, fmt.Sprintf("%q:%s", key, sorted(v[key])))
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = sorted(v[i])
		}
		slices.Sort(parts)
		return "[" + strings.Join(parts, ",") + "]"
	}
	return fmt.Sprintf("%#v", value)
}

// same compares two walks.
func same(t *testing.T, what string, told, now map[string]string) {
	t.Helper()
	for _, target := range slices.Sorted(maps.Keys(told)) {
		if now[target] != told[target] && now[target] != unable && told[target] != unable {
			t.Errorf("%s: %s was answered\n%.2000s\nand is answered\n%.2000s", what, target, told[target], now[target])
		}
	}
	if len(now) != len(told) {
		t.Errorf("%s: %d resources, there were %d", what, len(now), len(told))
	}
}

// dump is every row of every table, as texts: table → row → how often.
func (s *site) dump(t *testing.T) map[string]map[string]int {
	t.Helper()
	all := map[string]map[string]int{}
	s.read(t, func(ctx context.Context, tx *sqldb.Tx) error {
		query := "SELECT table_name FROM information_schema.tables WHERE table_schema = " +
			map[sqldb.Dialect]string{sqldb.MySQL: "DATABASE()", sqldb.PostgreSQL: "current_schema()"}[tx.Dialect]
		if tx.Dialect == sqldb.SQLite {
			query = "SELECT name FROM sqlite_master WHERE type = 'table'"
		}
		tables, err := rows(ctx, tx, query)
		if err != nil {
			return err
		}
		for _, table := range tables {
			found, err := rows(ctx, tx, "SELECT * FROM "+table[0])
			if err != nil {
				return err
			}
			all[table[0]] = map[string]int{}
			for _, row := range found {
				all[table[0]][strings.Join(row, " | ")]++
			}
		}
		return nil
	})
	if len(all["resource_providers"]) == 0 || len(all["allocations"]) == 0 || len(all["alembic_version"]) != 1 {
		t.Fatalf("the dump is no dump: %d tables", len(all))
	}
	return all
}

// difference is what has come and gone between two dumps.
func difference(before, after map[string]map[string]int) (list []string) {
	tables := maps.Clone(before)
	maps.Copy(tables, after)
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		if (before[table] == nil) != (after[table] == nil) {
			list = append(list, "the table "+table)
		}
		for row, n := range before[table] {
			if after[table][row] != n {
				list = append(list, "-"+table+": "+row)
			}
		}
		for row, n := range after[table] {
			if before[table][row] != n {
				list = append(list, "+"+table+": "+row)
			}
		}
	}
	return list
}

// unchanged: Berth adds the standard traits and resource classes that are newer than the original, and nothing else.
func unchanged(t *testing.T, before, after map[string]map[string]int) {
	t.Helper()
	for _, change := range difference(before, after) {
		if strings.HasPrefix(change, "+traits: ") && !strings.Contains(change, "CUSTOM_") ||
			strings.HasPrefix(change, "+resource_classes: ") && !strings.Contains(change, "CUSTOM_") {
			continue
		}
		t.Errorf("a session that only read changed %s", change)
	}
}

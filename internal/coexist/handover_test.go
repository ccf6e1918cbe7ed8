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

// handOver tests that Berth reads what OpenStack's Placement wrote, writes to the database, and that OpenStack's
// Placement then reads what Berth wrote. It begins and ends with OpenStack's Placement alone.
func (s *site) handOver(t *testing.T) {
	original := s.servers[0]
	filled := fill(t, original)
	before := s.dump(t)
	berth := s.startBerth()
	answers := readAll(t, original) // only now: Berth has added traits that are newer than OpenStack's Placement
	same(t, "Berth reads what OpenStack's Placement wrote", answers, readAll(t, berth))
	unchanged(t, before, s.dump(t))

	s.servers = []*server{original}
	s.stop(t)
	overwrite(t, berth, filled)
	answers = readAll(t, berth)
	s.servers = []*server{berth}
	s.stop(t)
	before = s.dump(t)
	original = s.startOriginal()
	same(t, "OpenStack's Placement reads what Berth wrote", answers, readAll(t, original))
	if changed := difference(before, s.dump(t)); len(changed) > 0 {
		t.Errorf("OpenStack's Placement changed at its start: %v", changed)
	}
	overwrite(t, original, fill(t, original))
	if b := s.snapshot(t); len(b.violations) > 0 {
		t.Error(b.violations)
	}
}

// content is what one call of fill has created.
type content struct {
	host, device, spare, consumer, group string
	class, trait                         string
}

// fill writes providers, inventories, traits, aggregates and allocations.
func fill(t *testing.T, by *server) content {
	t.Helper()
	e := &observer{t: t, conn: bench.Dial(by.Addr)}
	defer e.conn.Close()
	mark := strings.ToUpper(uuid.NewString()[:8])
	f := content{class: "CUSTOM_VF_" + mark, trait: "CUSTOM_PF_" + mark, group: uuid.NewString(),
		consumer: uuid.NewString()}
	e.do(201, "PUT", "/resource_classes/"+f.class, nil)
	e.do(201, "PUT", "/traits/"+f.trait, nil)
	f.host = provide(t, e.conn, "Wirt ü 主机 "+mark, "", map[string]int{"MEMORY_MB": 4096})
	f.spare = provide(t, e.conn, "spare "+mark, "", map[string]int{"VCPU": 4})
	f.device = provide(t, e.conn, "device "+mark, f.host, map[string]int{f.class: 8})
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

// overwrite changes everything that fill wrote.
func overwrite(t *testing.T, by *server, f content) {
	t.Helper()
	e := &observer{t: t, conn: bench.Dial(by.Addr)}
	defer e.conn.Close()
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
	more := provide(t, e.conn, "more "+mark, f.device, map[string]int{"DISK_GB": 100})
	e.do(201, "PUT", "/resource_classes/CUSTOM_MORE_"+strings.ToUpper(mark), nil)
	e.set(more, "/inventories",
		map[string]any{"inventories": map[string]any{"CUSTOM_MORE_" + strings.ToUpper(mark): map[string]int{"total": 3}}})
	e.do(204, "DELETE", "/resource_providers/"+provide(t, e.conn, "short-lived "+mark, "", map[string]int{"VCPU": 1}), nil)
}

// notSupported is the response of OpenStack's Placement on PostgreSQL for the usages of a project, at the
// microversions with consumer types: 500, because PostgreSQL rejects its query.
const notSupported = "500"

// readAll reads all resources of a server, and returns each response in a form that does not depend on the order of
// lists.
func readAll(t *testing.T, one *server) map[string]string {
	t.Helper()
	c := bench.Dial(one.Addr)
	defer c.Close()
	answers := map[string]string{}
	read := func(target string, into any) {
		status, answer, err := c.Do("GET", target, nil)
		if err == nil && status == 500 && one.original && strings.HasPrefix(target, "/usages?") {
			answers[target] = notSupported
			return
		}
		if err != nil || status != 200 {
			t.Fatalf("%s: GET %s: %d %.500s %v", one.name, target, status, answer, err)
		}
		var all any
		if err := json.Unmarshal(answer, &all); err != nil {
			t.Fatal(err)
		}
		answers[target] = sorted(all)
		if into != nil {
			if err := json.Unmarshal(answer, into); err != nil {
				t.Fatal(err)
			}
		}
	}
	var list struct {
		All []struct{ UUID string } `json:"resource_providers"`
	}
	read("/resource_providers", &list)
	consumers := map[string]bool{}
	for _, p := range list.All {
		at := "/resource_providers/" + p.UUID
		for _, part := range []string{"", "/inventories", "/usages", "/aggregates", "/traits"} {
			read(at+part, nil)
		}
		var held struct{ Allocations map[string]any }
		read(at+"/allocations", &held)
		for consumer := range held.Allocations {
			consumers[consumer] = true
		}
		read("/allocation_candidates?resources=VCPU:1&in_tree="+p.UUID, nil)
		read("/resource_providers?in_tree="+p.UUID, nil)
	}
	if len(list.All) < 3 || len(consumers) < 3 {
		t.Fatalf("only %d providers and %d consumers", len(list.All), len(consumers))
	}
	for consumer := range consumers {
		read("/allocations/"+consumer, nil)
	}
	for _, target := range []string{"/resource_classes", "/traits", "/traits?associated=true",
		"/usages?project_id=" + project, "/usages?project_id=" + project + "&user_id=" + user,
		"/allocation_candidates?resources=VCPU:1", "/allocation_candidates?resources=VCPU:1,MEMORY_MB:64",
		"/resource_providers?resources=VCPU:1", "/resource_providers?required=HW_NIC_SRIOV"} {
		read(target, nil)
	}
	return answers
}

// sorted formats a JSON value with sorted lists.
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

// same compares two results of readAll.
func same(t *testing.T, what string, answers, now map[string]string) {
	t.Helper()
	for _, target := range slices.Sorted(maps.Keys(answers)) {
		if now[target] != answers[target] && now[target] != notSupported && answers[target] != notSupported {
			t.Errorf("%s: %s: before\n%.2000s\nafter\n%.2000s", what, target, answers[target], now[target])
		}
	}
	if len(now) != len(answers) {
		t.Errorf("%s: %d resources, before %d", what, len(now), len(answers))
	}
}

// dump returns every row of every table: table → row → number of such rows.
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
			if strings.HasPrefix(table[0], "berth_") {
				continue // of the usage history, which Berth alone uses, and writes each minute
			}
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
		t.Fatalf("the dump is incomplete: %d tables", len(all))
	}
	return all
}

// difference returns the rows that were added and removed between two dumps.
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

// unchanged fails for changes other than the standard traits and resource classes that are newer than OpenStack's
// Placement, which Berth adds.
func unchanged(t *testing.T, before, after map[string]map[string]int) {
	t.Helper()
	for _, change := range difference(before, after) {
		if strings.HasPrefix(change, "+traits: ") && !strings.Contains(change, "CUSTOM_") ||
			strings.HasPrefix(change, "+resource_classes: ") && !strings.Contains(change, "CUSTOM_") {
			continue
		}
		t.Errorf("reading changed %s", change)
	}
}

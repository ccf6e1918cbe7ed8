package coexist

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/openberth/berth/sqldb"
)

// allocation is the allocation of a consumer in the format of the API: provider → resources → class → amount.
type allocation map[string]share

type share struct {
	Resources map[string]int `json:"resources"`
}

// snapshot is the content of the database at one moment, read with SQL.
type snapshot struct {
	held       map[string]allocation // by consumer
	consumers  map[string]bool
	violations []string // invariants that do not hold
}

// snapshot reads the database.
func (s *site) snapshot(t *testing.T) (b snapshot) {
	t.Helper()
	s.read(t, func(ctx context.Context, tx *sqldb.Tx) error {
		b = snapshot{held: map[string]allocation{}, consumers: map[string]bool{}}
		inventories, err := rows(ctx, tx, "SELECT p.uuid, p.name, c.name, i.total - i.reserved, i.allocation_ratio "+
			"FROM inventories i "+
			"JOIN resource_providers p ON p.id = i.resource_provider_id JOIN resource_classes c ON c.id = i.resource_class_id")
		if err != nil {
			return err
		}
		allocations, err := rows(ctx, tx, "SELECT p.uuid, c.name, a.consumer_id, a.used FROM allocations a "+
			"LEFT JOIN resource_providers p ON p.id = a.resource_provider_id "+
			"LEFT JOIN resource_classes c ON c.id = a.resource_class_id")
		if err != nil {
			return err
		}
		consumers, err := rows(ctx, tx, "SELECT uuid FROM consumers")
		for _, row := range consumers {
			b.consumers[row[0]] = true
		}
		b.add(inventories, allocations)
		return err
	})
	return b
}

// add adds up the allocations and compares them with the inventories.
func (b *snapshot) add(inventories, allocations [][]string) {
	sums := map[[2]string]int{}
	for _, row := range allocations {
		id, class, consumer := row[0], row[1], row[2]
		n := number(row[3])
		if b.held[consumer] == nil {
			b.held[consumer] = allocation{}
		}
		if b.held[consumer][id].Resources == nil {
			b.held[consumer][id] = share{map[string]int{}}
		}
		if had := b.held[consumer][id].Resources[class]; had > 0 {
			b.violations = append(b.violations, fmt.Sprintf("%s holds %s on %s in two rows: %d and %d", consumer, class, id, had,
				n))
		}
		b.held[consumer][id].Resources[class] += n
		sums[[2]string{id, class}] += n
	}
	for _, row := range inventories {
		at := [2]string{row[0], row[2]}
		ratio, err := strconv.ParseFloat(row[4], 64)
		if capacity := int(float64(number(row[3])) * ratio); err != nil || sums[at] > capacity {
			b.violations = append(b.violations, fmt.Sprintf("%s: %d of %s are allocated, it has %d (%v)", row[1], sums[at],
				row[2], capacity,
				err))
		}
		delete(sums, at)
	}
	for at, n := range sums {
		b.violations = append(b.violations, fmt.Sprintf("%d of %s are allocated from %s, which has none", n, at[1], at[0]))
	}
	for consumer := range b.held {
		if !b.consumers[consumer] {
			b.violations = append(b.violations, fmt.Sprintf("%s holds %v, but is not a consumer", consumer, b.held[consumer]))
		}
	}
}

func number(text string) int {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1 << 40 // results in a violation
	}
	return int(n)
}

// heldBy returns the allocations of some consumers in the format of state.String.
func (b *snapshot) heldBy(consumers []string) string {
	some := state{}
	for _, c := range consumers {
		some[c] = b.held[c]
	}
	return some.String()
}

// state is the allocations of some consumers.
type state map[string]allocation

// String returns the same text for equal states.
func (s state) String() string {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(_ string, a allocation) bool { return len(a) == 0 })
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error() // strings and numbers always encode
	}
	return string(text)
}

// TestSnapshotFindsViolations tests that add finds each kind of violation.
func TestSnapshotFindsViolations(t *testing.T) {
	inventories := [][]string{{"p", "host", "VCPU", "4", "1.5"}}
	for _, c := range []struct {
		name        string
		allocations [][]string
		want        string
	}{
		{"full", [][]string{{"p", "VCPU", "a", "2"}, {"p", "VCPU", "b", "4"}}, ""},
		{"over its capacity", [][]string{{"p", "VCPU", "a", "3"}, {"p", "VCPU", "b", "4"}},
			"7 of VCPU are allocated, it has 6"},
		{"no inventory", [][]string{{"p", "DISK_GB", "a", "1"}}, "which has none"},
		{"no provider", [][]string{{"NULL", "VCPU", "a", "1"}}, "which has none"},
		{"no consumer", [][]string{{"p", "VCPU", "x", "1"}}, "is not a consumer"},
		{"two rows for one class", [][]string{{"p", "VCPU", "a", "1"}, {"p", "VCPU", "a", "1"}}, "in two rows"},
	} {
		b := snapshot{held: map[string]allocation{}, consumers: map[string]bool{"a": true, "b": true}}
		b.add(inventories, c.allocations)
		got := strings.Join(b.violations, "; ")
		if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, wanted %q", c.name, got, c.want)
		}
	}
	b := snapshot{held: map[string]allocation{"a": {"p": {map[string]int{"VCPU": 1}}}}}
	if got := b.heldBy([]string{"a", "gone"}); got != `{"a":{"p":{"resources":{"VCPU":1}}}}` {
		t.Error(got)
	}
}

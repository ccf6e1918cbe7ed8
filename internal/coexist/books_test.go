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

// allocation is what a consumer holds, as on the wire: provider → resources → class → amount.
type allocation map[string]share

type share struct {
	Resources map[string]int `json:"resources"`
}

// books are what the database itself says, at one moment.
type books struct {
	held      map[string]allocation // by consumer
	consumers map[string]bool
	wrong     []string // what may be at no moment
}

// keep reads the books.
func (s *site) keep(t *testing.T) (b books) {
	t.Helper()
	s.read(t, func(ctx context.Context, tx *sqldb.Tx) error {
		b = books{held: map[string]allocation{}, consumers: map[string]bool{}}
		stock, err := rows(ctx, tx, "SELECT p.uuid, p.name, c.name, i.total - i.reserved, i.allocation_ratio FROM "+
			"inventories i "+
			"JOIN resource_providers p ON p.id = i.resource_provider_id JOIN resource_classes c ON c.id = i.resource_class_id")
		if err != nil {
			return err
		}
		taken, err := rows(ctx, tx, "SELECT p.uuid, c.name, a.consumer_id, a.used FROM allocations a "+
			"LEFT JOIN resource_providers p ON p.id = a.resource_provider_id LEFT JOIN resource_classes c ON c.id = "+
			"a.resource_class_id")
		if err != nil {
			return err
		}
		consumers, err := rows(ctx, tx, "SELECT uuid FROM consumers")
		for _, row := range consumers {
			b.consumers[row[0]] = true
		}
		b.enter(stock, taken)
		return err
	})
	return b
}

// enter adds up what is taken and holds it against what there is.
func (b *books) enter(stock, taken [][]string) {
	sums := map[[2]string]int{}
	for _, row := range taken {
		id, class, consumer := row[0], row[1], row[2]
		n := number(row[3])
		if b.held[consumer] == nil {
			b.held[consumer] = allocation{}
		}
		if b.held[consumer][id].Resources == nil {
			b.held[consumer][id] = share{map[string]int{}}
		}
		if had := b.held[consumer][id].Resources[class]; had > 0 {
			b.wrong = append(b.wrong, fmt.Sprintf("%s holds %s on %s in two rows: %d and %d", consumer, class, id, had, n))
		}
		b.held[consumer][id].Resources[class] += n
		sums[[2]string{id, class}] += n
	}
	for _, row := range stock {
		at := [2]string{row[0], row[2]}
		ratio, err := strconv.ParseFloat(row[4], 64)
		if capacity := int(float64(number(row[3])) * ratio); err != nil || sums[at] > capacity {
			b.wrong = append(b.wrong, fmt.Sprintf("%s: %d of %s are taken, it has %d (%v)", row[1], sums[at], row[2], capacity,
				err))
		}
		delete(sums, at)
	}
	for at, n := range sums {
		b.wrong = append(b.wrong, fmt.Sprintf("%d of %s are taken from %s, which has none", n, at[1], at[0]))
	}
	for consumer := range b.held {
		if !b.consumers[consumer] {
			b.wrong = append(b.wrong, fmt.Sprintf("%s holds %v and is no consumer", consumer, b.held[consumer]))
		}
	}
}

func number(text string) int {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return -1 << 40 // it shows as wrong
	}
	return int(n)
}

// of is what the books say of some consumers, in the form that deeds are written in.
func (b *books) of(consumers []string) string {
	some := state{}
	for _, c := range consumers {
		some[c] = b.held[c]
	}
	return some.String()
}

// state is what some consumers hold together.
type state map[string]allocation

// String is the same for the same state.
func (s state) String() string {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(_ string, a allocation) bool { return len(a) == 0 })
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error() // texts and numbers are always written
	}
	return string(text)
}

// The books find what is wrong with a world.
func TestBooksFindWhatIsWrong(t *testing.T) {
	stock := [][]string{{"p", "host", "VCPU", "4", "1.5"}}
	for _, c := range []struct {
		what  string
		taken [][]string
		want  string
	}{
		{"full", [][]string{{"p", "VCPU", "a", "2"}, {"p", "VCPU", "b", "4"}}, ""},
		{"over its capacity", [][]string{{"p", "VCPU", "a", "3"}, {"p", "VCPU", "b", "4"}}, "7 of VCPU are taken, it has 6"},
		{"no inventory", [][]string{{"p", "DISK_GB", "a", "1"}}, "which has none"},
		{"no provider", [][]string{{"NULL", "VCPU", "a", "1"}}, "which has none"},
		{"no consumer", [][]string{{"p", "VCPU", "x", "1"}}, "is no consumer"},
		{"a row twice", [][]string{{"p", "VCPU", "a", "1"}, {"p", "VCPU", "a", "1"}}, "in two rows"},
	} {
		b := books{held: map[string]allocation{}, consumers: map[string]bool{"a": true, "b": true}}
		b.enter(stock, c.taken)
		got := strings.Join(b.wrong, "; ")
		if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, wanted %q", c.what, got, c.want)
		}
	}
	b := books{held: map[string]allocation{"a": {"p": {map[string]int{"VCPU": 1}}}}}
	if got := b.of([]string{"a", "gone"}); got != `{"a":{"p":{"resources":{"VCPU":1}}}}` {
		t.Error(got)
	}
}

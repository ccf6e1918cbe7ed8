package eventstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// replay applies what a Reader returns to a state, and starts again with the whole state when it is too far behind.
type replay struct {
	log    *Log
	reader *Reader
	state  map[Key]any
	last   int64
	resets int
}

func (r *replay) read(t *testing.T, most int) {
	if r.reader == nil {
		var objects []Change
		r.state = map[Key]any{}
		var err error
		if objects, r.reader, err = r.log.State(t.Context(), Filter{}); err != nil {
			t.Fatal(err)
		}
		for _, c := range objects {
			r.state[c.Key] = c.After.Data
			r.last = c.Number
		}
		r.resets++
		return
	}
	changes, _, ok := r.reader.Next(most)
	if !ok {
		r.reader = nil
		return
	}
	for _, c := range changes {
		if c.Number <= r.last {
			t.Errorf("change %d after %d", c.Number, r.last)
		}
		r.last = c.Number
		before, had := r.state[c.Key]
		if had != (c.Before != nil) || had && !reflect.DeepEqual(before, c.Before.Data) {
			t.Errorf("change %d of %v is of %v, the state is %v", c.Number, c.Key, c.Before, before)
		}
		if delete(r.state, c.Key); c.After != nil {
			r.state[c.Key] = c.After.Data
		}
	}
}

// TestReplay applies random changes to a Log that keeps few of them. Readers of all speeds, which also reconnect by
// cursor, end with its state. Each change is of the state that the reader had: nothing is missed or doubled.
func TestReplay(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		log := New(5)
		readers := make([]*replay, 4)
		for i := range readers {
			readers[i] = &replay{log: log}
		}
		for range 200 {
			objects := map[Key]*Object{}
			for range chance.IntN(3) {
				key := Key{"k", fmt.Sprint(chance.IntN(6))}
				if objects[key] = nil; chance.IntN(3) > 0 {
					objects[key] = &Object{Data: chance.IntN(3)}
				}
			}
			log.Apply(objects)
			for i, r := range readers {
				if chance.IntN(1+3*i) > 0 {
					continue // a slow one
				}
				if r.reader != nil && chance.IntN(3) == 0 { // reconnects
					next, known := log.Read(r.reader.Cursor())
					if r.reader = next; !known {
						r.reader = nil
					}
				}
				r.read(t, 1+chance.IntN(4))
			}
		}
		want := map[Key]any{}
		for key, o := range log.state {
			want[key] = o.Data
		}
		for i, r := range readers {
			for range 100 {
				r.read(t, 3)
			}
			if !reflect.DeepEqual(r.state, want) {
				t.Errorf("reader %d has %v, the state is %v", i, r.state, want)
			}
		}
		if readers[0].resets != 1 || readers[3].resets < 2 {
			t.Errorf("the fast reader was reset %d times, the slow one %d times", readers[0].resets, readers[3].resets)
		}
	}
}

// TestCursors refuses cursors of other logs, of the future, and of changes that are not kept.
func TestCursors(t *testing.T) {
	log := New(2)
	for i := range 9 {
		log.Apply(map[Key]*Object{{"k", "1"}: {Data: i}})
	}
	for cursor, known := range map[string]bool{"": true, log.Cursor(9): true, log.Cursor(8): true, log.Cursor(10): false,
		log.Cursor(1): false, New(2).Cursor(9): false, "x": false, log.id + "-": false, log.id + "--1": false} {
		if _, got := log.Read(cursor); got != known {
			t.Errorf("%q: %t", cursor, got)
		}
	}
}

// TestFilter selects by kind, host, project and class.
func TestFilter(t *testing.T) {
	key, o := Key{"allocation", "1"}, &Object{Host: "h", Project: "p", Classes: []string{"VCPU", "DISK_GB"}}
	for _, c := range []struct {
		filter Filter
		want   bool
	}{{Filter{}, true}, {Filter{Kinds: []string{"allocation"}}, true}, {Filter{Kinds: []string{"provider"}}, false},
		{Filter{Hosts: []string{"g", "h"}}, true}, {Filter{Hosts: []string{"g"}}, false},
		{Filter{Projects: []string{"p"}}, true}, {Filter{Projects: []string{"q"}}, false},
		{Filter{Classes: []string{"DISK_GB"}}, true}, {Filter{Classes: []string{"MEMORY_MB"}}, false}} {
		if got := c.filter.Selects(key, o); got != c.want {
			t.Errorf("%+v: %t", c.filter, got)
		}
	}
}

// TestState sends only the selected objects, in order, to two clients at a time.
func TestState(t *testing.T) {
	log := New(5)
	log.Apply(map[Key]*Object{{"k", "2"}: {Project: "p"}, {"k", "1"}: {Project: "p"}, {"j", "3"}: {Project: "p"},
		{"k", "4"}: {Project: "q"}})
	objects, _, err := log.State(t.Context(), Filter{Projects: []string{"p"}})
	if err != nil || len(objects) != 3 || objects[0].Key.ID != "3" || objects[1].Key.ID != "1" {
		t.Errorf("%v %v", objects, err)
	}
	for range maxStates {
		log.states <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := log.State(ctx, Filter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a third one does not wait: %v", err)
	}
}

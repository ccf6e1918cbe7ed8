package sqldb

import (
	"errors"
	"testing"
)

// TestBatchRemembersWhatItHasRead checks that a fact lasts for the rest of a batch, also after the write that recorded
// it has failed, and not longer; that it can be forgotten; and that a read has none.
func TestBatchRemembersWhatItHasRead(t *testing.T) {
	db := open(t, fileURL(t))
	w := idleWriter(db)
	var seen []string
	look := func(tx *Tx) error {
		value, ok := tx.Remembered("owner")
		if !ok {
			value = "nothing"
		}
		seen = append(seen, value)
		return nil
	}
	remember := func(value string, result error) func(*Tx) error {
		return func(tx *Tx) error { tx.Remember("owner", value); return result }
	}
	_, wait := enqueue(w, look, remember("a", errors.New("on purpose")), look, remember("", nil), look,
		func(tx *Tx) error { tx.Forget("owner"); return nil }, look, remember("b", nil))
	w.batch(<-w.writes)
	wait()
	_, wait = enqueue(w, look)
	w.batch(<-w.writes)
	wait()
	must(t, db.Read(t.Context(), func(tx *Tx) error {
		tx.Remember("owner", "c")
		return look(tx)
	}))
	want := []string{"nothing", "a", "", "nothing", "nothing", "nothing"}
	if len(seen) != len(want) {
		t.Fatalf("seen %q, want %q", seen, want)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("seen %q, want %q", seen, want)
		}
	}
}

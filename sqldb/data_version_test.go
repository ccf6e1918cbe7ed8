package sqldb

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
)

// TestDataVersionChangesWithOtherWriters checks that the number changes with the writes of other connections only.
func TestDataVersionChangesWithOtherWriters(t *testing.T) {
	url := fileURL(t)
	db, other := open(t, url), open(t, url)
	number := func() int64 {
		n, ok, err := db.DataVersion(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return n
	}
	first := number()
	must(t, db.Write(t.Context(), insertRow("mine")))
	wantNames(t, db, "mine")
	wantNames(t, other, "mine")
	if n := number(); n != first {
		t.Errorf("the version is %d after an own write, before it %d", n, first)
	}
	must(t, other.Write(t.Context(), insertRow("theirs")))
	second := number()
	if second == first {
		t.Errorf("the version is still %d after a write of another", second)
	}
	if n := number(); n != second {
		t.Errorf("the version is %d without a write, before it %d", n, second)
	}
	db = open(t, databases.SharedMariaDB(t).Database(t))
	if _, ok, err := db.DataVersion(t.Context()); ok || err != nil {
		t.Error(ok, err)
	}
}

// TestDataVersionChangesWithLateCommits checks that the number changes after a COMMIT for whose end the caller did not
// wait: nothing else reports that it was successful.
func TestDataVersionChangesWithLateCommits(t *testing.T) {
	db := open(t, fileURL(t))
	number := func() int64 {
		n, ok, err := db.DataVersion(t.Context())
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		return n
	}
	first := number()
	release, inside := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	late := make(chan error, 1)
	go func() {
		late <- db.Write(ctx, func(tx *Tx) error {
			close(inside)
			time.Sleep(10 * time.Millisecond) // until the other write waits
			return insertRow("late")(tx)
		})
	}()
	<-inside
	other := make(chan error, 1)
	go func() {
		other <- db.Write(t.Context(), func(*Tx) error { // of the same batch, so it delays the COMMIT
			<-release
			return nil
		})
	}()
	if err := <-late; !IsUnknown(err) {
		t.Fatalf("a write whose COMMIT comes too late: %v", err)
	}
	close(release)
	must(t, <-other)
	wantNames(t, db, "late")
	if n := number(); n == first {
		t.Errorf("the version is still %d after a commit that was not reported", n)
	}
}

package sqldb

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
)

// TestWrittenFollowsCommits checks that own commits and those of another DB on the file are noticed, and nothing else.
func TestWrittenFollowsCommits(t *testing.T) {
	url := fileURL(t)
	db, other := open(t, url), open(t, url)
	ctx, stop := context.WithCancel(t.Context())
	noticed, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		db.Written(ctx, func() { noticed <- struct{}{} })
		close(ended)
	}()
	for name, writer := range map[string]*DB{"mine": db, "theirs": other} {
		quiet := func() bool { // no call for some looks
			for len(noticed) > 0 {
				<-noticed
			}
			time.Sleep(5 * lookInterval)
			return len(noticed) == 0
		}
		for end := time.Now().Add(time.Minute); !quiet(); {
			if time.Now().After(end) {
				t.Fatal("noticed without a commit")
			}
		}
		must(t, writer.Write(t.Context(), insertRow(name)))
		select {
		case <-noticed:
		case <-time.After(time.Minute):
			t.Fatalf("%s: not noticed after a minute", name)
		}
	}
	stop()
	<-ended
	open(t, databases.SharedMariaDB(t).Database(t)).Written(t.Context(), nil) // returns
}

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

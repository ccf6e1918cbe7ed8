package sqldb

import (
	"context"
	"testing"
	"time"

	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/internal/testenv"
)

// Own commits and those of another DB on the file are noticed, and nothing else.
func TestWritten(t *testing.T) {
	url := fileURL(t)
	db, other := open(t, url), open(t, url)
	ctx, stop := context.WithCancel(t.Context())
	noticed, ended := make(chan struct{}, 1000), make(chan struct{})
	go func() {
		db.Written(ctx, func() { noticed <- struct{}{} })
		close(ended)
	}()
	for n, writer := range []*DB{db, other, db} {
		for end, got := time.Now().Add(testenv.Patience), false; !got; { // until Written watches the file
			must(t, writer.Write(t.Context(), insertRow(time.Now().String())))
			select {
			case <-noticed:
				got = true
			case <-time.After(100 * time.Millisecond):
			}
			if time.Now().After(end) {
				t.Fatalf("write %d is not noticed", n)
			}
		}
		time.Sleep(300 * time.Millisecond)
		for len(noticed) > 0 {
			<-noticed
		}
		if time.Sleep(100 * time.Millisecond); len(noticed) > 0 {
			t.Error("noticed without a commit")
		}
	}
	stop()
	<-ended
	open(t, databases.SharedMariaDB(t).Database(t)).Written(t.Context(), nil) // returns
}

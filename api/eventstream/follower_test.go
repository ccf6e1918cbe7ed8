package eventstream

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openberth/berth/internal/testenv"
)

// countedSource is a Source without objects. It counts how often it is begun and ended.
type countedSource struct{ begun, ended atomic.Int64 }

func (s *countedSource) Begin()                                           { s.begun.Add(1) }
func (s *countedSource) Changes(context.Context) (map[Key]*Object, error) { return nil, nil }
func (s *countedSource) End()                                             { s.ended.Add(1) }

// TestUnwatched drops the Log a while after the last of two clients has left, and begins again for the next one.
func TestUnwatched(t *testing.T) {
	source := &countedSource{}
	f := NewFollower(source, slog.New(slog.DiscardHandler))
	f.keep = time.Millisecond
	go f.Run(t.Context())
	watch := func() (*Log, func()) {
		log, leave, err := f.Log(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return log, leave
	}
	first, leave := watch()
	second, leaveToo := watch()
	leave()
	time.Sleep(3 * interval)
	if third, leave := watch(); first != second || third != first {
		t.Error("the log of a client is dropped")
	} else {
		leave()
	}
	leaveToo()
	following := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.following != nil
	}
	testenv.Until(t, "the log is dropped", func() bool { return !following() })
	again, leave := watch()
	defer leave()
	if _, known := again.Read(first.Cursor(0)); known {
		t.Error("the cursor of a dropped log is known")
	}
	testenv.Until(t, "the source is begun twice and ended once", func() (bool, error) {
		begun, ended := source.begun.Load(), source.ended.Load()
		return begun == 2 && ended == 1, fmt.Errorf("begun %d times, ended %d times", begun, ended)
	})
}

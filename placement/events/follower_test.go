package events

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/openberth/berth/placement/index"
	"github.com/openberth/berth/placement/store"
	"github.com/openberth/berth/provider"
)

// TestUnwatched drops the Log a while after the last of two clients has left, and begins again for the next one.
func TestUnwatched(t *testing.T) {
	empty := index.Build(nil)
	f := NewFollower(Source{Snapshot: func() *index.Snapshot { return empty },
		Shares: func(context.Context, ...provider.ID) ([]store.Share, error) { return nil, nil }},
		slog.New(slog.DiscardHandler))
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
	for last := time.Now().Add(20 * time.Second); following(); time.Sleep(time.Millisecond) {
		if time.Now().After(last) {
			t.Fatal("the log is kept")
		}
	}
	if f.Touch("p"); len(f.touched) > 0 {
		t.Error("writes are collected without a client")
	}
	again, leave := watch()
	defer leave()
	if _, known := again.Read(first.Cursor(0)); known {
		t.Error("the cursor of a dropped log is known")
	}
}
